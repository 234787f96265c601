"""Whether a 95% region holds the individual device's transition matrix, whole, in 95% of cases, for k states.

`python -m evaluation.estimation_k` simulates cohorts of k = 3 and 4 states, counts and charges their statistics as the
calibrator does, and prints a table; docs/estimation.md has it as recorded.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrator.estimate_k import EvidenceK, fit
from calibrator.moments_k import FULL, described, lookup, stationary, transitions
from calibrator.noise import variance
from calibrator.region_k import cohort_intervals, device_intervals, entries
from calibrator.statistics import BANDS, WIDTHS
from calibrator.statistics_k import COARSENESS, pairs_of, sensitivity
from pufferfish.contraction import largest_tilt
from pufferfish.emission import release_tilt, response
from pufferfish.intervals import Class, Intervals

Floats = NDArray[np.float64]

WINDOW = 7_200
THREE = np.array([[0.85, 0.10, 0.05], [0.10, 0.80, 0.10], [0.05, 0.15, 0.80]])
FOUR = np.array(
    [[0.80, 0.10, 0.07, 0.03], [0.10, 0.70, 0.15, 0.05], [0.05, 0.10, 0.75, 0.10], [0.05, 0.05, 0.10, 0.80]]
)
SLOW = np.eye(4) * 0.9 + FOUR * 0.1
"""FOUR, ten times as slow."""


def sanitized(P: Floats, emission: Floats, *, ticks: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """One row per chain of P: its states through the emission. Probabilities are rounded to 1/65536."""
    count, k = P.shape[:2]
    ends = np.rint(np.cumsum(P, axis=2)[:, :, :-1] * FULL).astype(np.uint32).reshape(count * k, k - 1)
    columns = [np.ascontiguousarray(column) for column in ends.T]
    lies, _ = lookup(emission)
    first = np.arange(count, dtype=np.int32) * k
    state = (rng.random((count, 1)) > np.cumsum(stationary(P), axis=1)[:, :-1]).sum(axis=1, dtype=np.int32)
    states = np.empty((ticks, count), dtype=np.uint8)
    for tick in range(ticks):
        drawn = rng.integers(0, FULL, (2, count), dtype=np.uint16)
        states[tick] = lies[(state << 16) | drawn[0]]
        place = first + state
        state = np.zeros(count, dtype=np.int32)
        for column in columns:
            state += drawn[1] >= column[place]
    return np.ascontiguousarray(states.T)


def evidence(
    states: NDArray[np.uint8], emission: Floats, *, scale: float, windows: int, rng: np.random.Generator
) -> EvidenceK:
    """Evidence of one device per row, with simulated noise of the charged scale, drawn once per window."""
    (count, ticks), k = states.shape, len(emission)

    def drawn(width: float, *shape: int) -> Floats:
        p = -np.expm1(-1 / (scale * width))
        total: Floats = (rng.geometric(p, (windows, *shape)) - rng.geometric(p, (windows, *shape))).sum(
            axis=0
        )
        return total.astype(np.float64)

    pairs = pairs_of(states, k).astype(np.float64)
    for band in range(len(BANDS)):
        pairs[:, band] += drawn(WIDTHS[band] * COARSENESS[band], count, k, k)
    starts = [float(max(0, ticks - last)) for _, last in BANDS]
    return EvidenceK(
        tuple(f"device-{number}" for number in range(count)),
        np.arange(count),
        np.repeat(emission[None], count, axis=0),
        np.full(count, float(ticks)),
        np.stack([(states == u).sum(axis=1) for u in range(k)], axis=1) + drawn(1, count, k),
        np.repeat([starts], count, axis=0),
        pairs,
        np.full(count, windows * variance(scale)),
    )


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table."""

    name: str
    chain: Floats
    epsilon: float
    devices: int
    ticks: int
    spread: float
    """Standard deviation between devices of every log(P_uv/P_uu)."""

    @property
    def theta(self) -> Class:
        return Class.of(Intervals.point(self.chain.tolist()))

    @property
    def emission(self) -> Floats:
        return np.array(response(len(self.chain), largest_tilt(self.theta, self.epsilon).tau))

    @property
    def scale(self) -> float:
        """Half of what the public, with half the operator's ε, leaves for a window goes into learning."""
        tilt = release_tilt(self.emission.tolist(), largest_tilt(self.theta, self.epsilon / 2).tau)
        return sensitivity() / (min(tilt, 8.0) / 2)

    def chains(self, count: int, rng: np.random.Generator) -> Floats:
        x = described(self.chain)
        moved: Floats = x + rng.normal(0, self.spread, (count, len(x)))
        return moved


SETTINGS = tuple(
    Setting(name, chain, epsilon, devices, ticks, spread)
    for name, chain, epsilon, devices, ticks in (
        ("THREE", THREE, 2, 11, 20_000),
        ("THREE", THREE, 4, 11, 20_000),
        ("THREE", THREE, 8, 11, 20_000),
        ("FOUR", FOUR, 4, 11, 20_000),
        ("FOUR", FOUR, 8, 11, 20_000),
        ("SLOW", SLOW, 8, 11, 20_000),
    )
    for spread in (0.0, 0.15, 0.5)
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often all entries were held: a device's own, a quarter narrower, the cohort's for a new device."""

    own: float
    narrower: float
    newcomer: float
    own_width: float
    cohort_width: float


def coverage(setting: Setting, *, cohorts: int, seed: int) -> Coverage:
    """Simulate cohorts and count."""
    rng = np.random.default_rng(seed)
    k, m = len(setting.chain), setting.devices
    emission, scale = setting.emission, setting.scale
    away = ~np.eye(k, dtype=bool)
    held: list[NDArray[np.bool_]] = []
    widths: list[tuple[float, float]] = []
    step = max(1, 4000 // m)
    for first in range(0, cohorts, step):
        count = min(step, cohorts - first) * m
        x, strangers = setting.chains(count, rng), entries(setting.chains(count, rng), k)
        truth = entries(x, k)
        states = sanitized(transitions(x, k), emission, ticks=setting.ticks, rng=rng)
        for place in range(0, count, m):
            mine = slice(place, place + m)
            windows = -(-setting.ticks // WINDOW)
            found = fit(evidence(states[mine], emission, scale=scale, windows=windows, rng=rng))
            if found is None:
                raise RuntimeError("a cohort of this size must have a fit")
            low, high = device_intervals(found)
            least, most = cohort_intervals(found)
            middle, half = (low + high) / 2, (high - low) / 2
            held.append(
                np.stack(
                    [
                        (np.abs(truth[mine] - middle) <= half).all(axis=(1, 2, 3)),
                        (np.abs(truth[mine] - middle) <= 0.75 * half).all(axis=(1, 2, 3)),
                        ((least <= strangers[mine]) & (strangers[mine] <= most)).all(axis=(1, 2, 3)),
                    ],
                    axis=1,
                )
            )
            widths.append(
                (float(np.median((high - low)[:, 0][:, away])), float(np.median((most - least)[0][away])))
            )
    return Coverage(*np.concatenate(held).mean(axis=0).tolist(), *np.median(widths, axis=0).tolist())


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.estimation_k", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="cohorts per line (100)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    started = time.monotonic()
    print(
        "| chain | spread | ε | kept | devices | ticks | own region | ¼ narrower | newcomer | width: own, cohort |"
    )
    print("|---" * 10 + "|")
    for setting in SETTINGS:
        found = coverage(setting, cohorts=args.runs, seed=args.seed)
        print(
            f"| {setting.name} | {setting.spread:g} | {setting.epsilon:g} | {setting.emission[0, 0]:.3f} "
            f"| {setting.devices} | {setting.ticks:,} | {found.own:.1%} | {found.narrower:.1%} "
            f"| {found.newcomer:.1%} | {found.own_width:.3f}, {found.cohort_width:.3f} |",
            flush=True,
        )
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
