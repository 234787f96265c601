"""Whether a 95% region holds the individual device's transition matrix, whole, in 95% of cases, for k states.

`python -m evaluation.estimation_k` simulates cohorts of k = 3 and 4 states, counts and charges their statistics as the
calibrator does, and prints a table; docs/estimation.md has it as recorded.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrator.estimate_k import EvidenceK, FitK, fit
from calibrator.learn import FIRST_LOOK, KEPT_BLOCKS, block_of, is_check, last_look
from calibrator.moments_k import FULL, described, lookup, stationary, transitions
from calibrator.noise import variance
from calibrator.region_k import cohort_intervals, device_intervals, entries
from calibrator.statistics import BANDS
from calibrator.statistics_k import MULTIPLES, pairs_of, sensitivity
from pufferfish.contraction import largest_tilt
from pufferfish.emission import release_tilt, response
from pufferfish.intervals import Class, Intervals

Floats = NDArray[np.float64]

WINDOW = 7_200
TOGETHER = 4_000
"""Devices simulated at a time."""
THREE = np.array([[0.85, 0.10, 0.05], [0.10, 0.80, 0.10], [0.05, 0.15, 0.80]])
FOUR = np.array(
    [[0.80, 0.10, 0.07, 0.03], [0.10, 0.70, 0.15, 0.05], [0.05, 0.10, 0.75, 0.10], [0.05, 0.05, 0.10, 0.80]]
)
SLOW = np.eye(4) * 0.9 + FOUR * 0.1
"""FOUR, ten times as slow."""


def sanitized(P: Floats, emission: Floats, *, ticks: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """One row per chain of P: its states through the emission."""
    return next(windows(P, emission, ticks=ticks, window=ticks, rng=rng))


def windows(
    P: Floats, emission: Floats, *, ticks: int, window: int = WINDOW, rng: np.random.Generator
) -> Iterator[NDArray[np.uint8]]:
    """The same window by window. Sixteen random bits decide each step: probabilities are rounded to 1/65536."""
    count, k = P.shape[:2]
    ends = np.rint(np.cumsum(P, axis=2)[:, :, :-1] * FULL).astype(np.uint32).reshape(count * k, k - 1)
    columns = [np.ascontiguousarray(column) for column in ends.T]
    lies, _ = lookup(emission)
    first = np.arange(count, dtype=np.int32) * k
    state = (rng.random((count, 1)) > np.cumsum(stationary(P), axis=1)[:, :-1]).sum(axis=1, dtype=np.int32)
    for start in range(0, ticks, window):
        states = np.empty((min(window, ticks - start), count), dtype=np.uint8)
        for here in states:
            drawn = rng.integers(0, FULL, (2, count), dtype=np.uint16)
            here[:] = lies[(state << 16) | drawn[0]]
            place = first + state
            state = np.zeros(count, dtype=np.int32)
            for column in columns:
                state += drawn[1] >= column[place]
        yield np.ascontiguousarray(states.T)


def evidence(
    runs: Iterable[NDArray[np.uint8]], emission: Floats, *, scale: float, draws: int, rng: np.random.Generator
) -> EvidenceK:
    """Evidence of one device per row of the windows' states, with simulated noise of the charged scale."""
    k = len(emission)
    ticks, starts = 0, np.zeros(len(BANDS))
    counts, pairs = np.zeros(k), np.zeros((len(BANDS), k, k))
    for states in runs:
        ticks += states.shape[1]
        starts += [max(0, states.shape[1] - last) for _, last in BANDS]
        counts = counts + np.stack([(states == u).sum(axis=1) for u in range(k)], axis=1)
        pairs = pairs + pairs_of(states, k)
    count = len(counts)
    for _ in range(draws):
        counts += _drawn(scale, (count, k), rng)
        for band, multiple in enumerate(MULTIPLES[1:]):
            pairs[:, band] += _drawn(scale * multiple, (count, k, k), rng)
    return EvidenceK(
        tuple(f"device-{number}" for number in range(count)),
        np.arange(count),
        np.repeat(emission[None], count, axis=0),
        np.full(count, float(ticks)),
        counts,
        np.repeat(starts[None], count, axis=0),
        pairs,
        np.full(count, draws * variance(scale)),
    )


def _drawn(scale: float, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
    p = -np.expm1(-1 / scale)
    return rng.geometric(p, shape) - rng.geometric(p, shape)


def in_cohorts(found: EvidenceK, size: int) -> Iterator[EvidenceK]:
    """The same evidence as if so many devices each were a cohort."""
    for first in range(0, len(found.devices), size):
        mine = slice(first, first + size)
        rows = (getattr(found, name)[mine] for name in EvidenceK.__slots__[2:])
        yield EvidenceK(found.devices[mine], np.arange(size), *rows)


def weighed(look: int) -> tuple[int, int]:
    """How many windows a look weighs, and for how many draws of noise their statistics were charged."""
    end = FIRST_LOOK << (look - 1)
    windows = [one for one in range(1, end + 1) if block_of(one) > block_of(end) - KEPT_BLOCKS]
    # Before the first look nothing is believed, so there is nothing to check.
    drawn = [one for one in windows if one >= FIRST_LOOK and is_check(one - last_look(one - 1))]
    return len(windows), len(drawn)


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table."""

    name: str
    chain: Floats
    epsilon: float
    look: int
    """How many looks there have been: they come after 4, 8, 16, … windows."""
    spread: float
    """Standard deviation between devices of log(P_uv/P_uu)."""
    devices: int = 11
    rows: int | None = None
    """In how many rows of P devices differ; in all of them if None."""

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

    @property
    def apart(self) -> str:
        """How devices differ, in words."""
        return (
            f"{self.spread:g}"
            if self.rows is None
            else f"{self.spread:g} in {self.rows} of {len(self.chain)} rows"
        )

    def chains(self, count: int, rng: np.random.Generator) -> Floats:
        x = described(self.chain)
        drawn = rng.normal(0, self.spread, (count, len(x)))
        if self.rows is not None:
            drawn[:, self.rows * (len(self.chain) - 1) :] = 0.0
        moved: Floats = x + drawn
        return moved


SETTINGS = (
    *(
        Setting(name, chain, epsilon, look, spread)
        for name, chain, epsilon, look in (
            ("THREE", THREE, 8, 1),
            ("THREE", THREE, 4, 1),
            ("THREE", THREE, 4, 4),
            ("THREE", THREE, 2, 6),
            ("FOUR", FOUR, 8, 1),
            ("FOUR", FOUR, 4, 6),
        )
        for spread in (0.0, 0.15, 0.5)
    ),
    *(Setting("SLOW", SLOW, 8, 6, spread) for spread in (0.0, 0.5)),
    Setting("THREE", THREE, 8, 1, 0.5, rows=1),
    Setting("FOUR", FOUR, 8, 1, 0.5, rows=2),
    *(Setting("THREE", THREE, 8, 1, spread, devices=40) for spread in (0.0, 0.15, 0.5)),
    *(Setting("FOUR", FOUR, 8, 1, spread, devices=40) for spread in (0.0, 0.15, 0.5)),
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
    k = len(setting.chain)
    away = ~np.eye(k, dtype=bool)
    held: list[NDArray[np.bool_]] = []
    widths: list[tuple[float, float]] = []
    for x, strangers, found in fitted(setting, cohorts=cohorts, rng=rng):
        truth, others = entries(x, k), entries(strangers, k)
        low, high = device_intervals(found)
        least, most = cohort_intervals(found)
        middle, half = (low + high) / 2, (high - low) / 2
        held.append(
            np.stack(
                [
                    (np.abs(truth - middle) <= half).all(axis=(1, 2, 3)),
                    (np.abs(truth - middle) <= 0.75 * half).all(axis=(1, 2, 3)),
                    ((least <= others) & (others <= most)).all(axis=(1, 2, 3)),
                ],
                axis=1,
            )
        )
        widths.append(
            (float(np.median((high - low)[:, 0][:, away])), float(np.median((most - least)[0][away])))
        )
    return Coverage(*np.concatenate(held).mean(axis=0).tolist(), *np.median(widths, axis=0).tolist())


def fitted(
    setting: Setting, *, cohorts: int, rng: np.random.Generator
) -> Iterator[tuple[Floats, Floats, FitK]]:
    """Simulated cohorts: the chains of their devices, as many others, and the fit."""
    k, m = len(setting.chain), setting.devices
    emission, scale = setting.emission, setting.scale
    number, draws = weighed(setting.look)
    step = max(1, TOGETHER // m)
    for first in range(0, cohorts, step):
        count = min(step, cohorts - first) * m
        x, strangers = setting.chains(count, rng), setting.chains(count, rng)
        states = windows(transitions(x, k), emission, ticks=number * WINDOW, rng=rng)
        seen = evidence(states, emission, scale=scale, draws=draws, rng=rng)
        for place, cohort in enumerate(in_cohorts(seen, m)):
            found = fit(cohort)
            if found is None:
                raise RuntimeError("a cohort of this size must have a fit")
            mine = slice(place * m, (place + 1) * m)
            yield x[mine], strangers[mine], found


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.estimation_k", description=__doc__)
    parser.add_argument("--runs", type=int, default=300, help="cohorts per line (300)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", default=":", help="which lines of the table, as 4:8 (all)")
    args = parser.parse_args(argv)
    started = time.monotonic()
    print(
        "| chain | spread | ε | kept | devices | look | own region | ¼ narrower | newcomer | width: own, cohort |"
    )
    print("|---" * 10 + "|")
    first, last = (int(end) if end else None for end in args.lines.split(":"))
    for setting in SETTINGS[first:last]:
        found = coverage(setting, cohorts=args.runs, seed=args.seed)
        print(
            f"| {setting.name} | {setting.apart} | {setting.epsilon:g} | {setting.emission[0, 0]:.3f} "
            f"| {setting.devices} | {setting.look} | {found.own:.1%} | {found.narrower:.1%} "
            f"| {found.newcomer:.1%} | {found.own_width:.3f}, {found.cohort_width:.3f} |",
            flush=True,
        )
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
