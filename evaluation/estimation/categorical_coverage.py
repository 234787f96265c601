"""The simultaneous coverage of 95% confidence regions for a device's whole transition matrix, for k states.

`python -m hushmq.evaluation.estimation.categorical_coverage coverage` simulates cohorts of 3 and 4 states, counts and
charges their statistics as the calibrator does, and prints a table; `… misfit` measures recordings of more than two
states against first-order chains, and whether regions hold what was recorded. docs/estimation.md has both as
recorded.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.learning.update_schedule import (
    FIRST_UPDATE,
    KEPT_BLOCKS,
    block_of,
    is_change_test,
)
from hushmq.calibrator.models.categorical.categorical_fit import CategoricalFit, fit
from hushmq.calibrator.models.categorical.categorical_misfit import measure
from hushmq.calibrator.models.categorical.categorical_moments import described, transitions
from hushmq.calibrator.models.categorical.categorical_region import (
    cohort_intervals,
    device_intervals,
    entries,
)
from hushmq.calibrator.models.categorical.categorical_statistics import CategoricalSums, sensitivity
from hushmq.calibrator.models.lag_bands import BANDS
from hushmq.calibrator.models.misfit import Misfit
from hushmq.evaluation.estimation.sanitized_categorical import (
    WINDOW,
    evidence,
    evidence_of,
    in_cohorts,
    windows,
)
from hushmq.evaluation.recordings import Recording, binned, heart_rates, people
from hushmq.evaluation.recordings import fitted as fitted_chain
from hushmq.evaluation.section_list import Job, Missing
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import largest_tilt
from hushmq.pufferfish.categorical.emission import randomized_response, release_tilt
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals

Floats = NDArray[np.float64]

OFTEN = 100
"""The least number of transitions from a state for its row of a recording to be compared."""
TOGETHER = 4_000
"""The number of devices simulated in one call."""
THREE = np.array([[0.85, 0.10, 0.05], [0.10, 0.80, 0.10], [0.05, 0.15, 0.80]])
FOUR = np.array(
    [[0.80, 0.10, 0.07, 0.03], [0.10, 0.70, 0.15, 0.05], [0.05, 0.10, 0.75, 0.10], [0.05, 0.05, 0.10, 0.80]]
)
SLOW = np.eye(4) * 0.9 + FOUR * 0.1
"""FOUR with a tenth of its transition rates."""


def windows_used(update: int) -> tuple[int, int]:
    """How many windows a theta update uses, and with how many draws of noise."""
    end = FIRST_UPDATE << (update - 1)
    windows = [one for one in range(1, end + 1) if block_of(one) > block_of(end) - KEPT_BLOCKS]
    # Before the first update nothing is learned, so there is no change test.
    drawn = [one for one in windows if one >= FIRST_UPDATE and is_change_test(one)]
    return len(windows), len(drawn)


@dataclass(frozen=True, slots=True)
class CategoricalScenario:
    """One line of the table."""

    name: str
    chain: Floats
    epsilon: float
    update: int
    """The number of the theta update: they follow after 4, 8, 16, … windows."""
    spread: float
    """Standard deviation between devices of log(P_uv/P_uu)."""
    devices: int = 11
    rows: int | None = None
    """In how many rows of P devices differ; in all of them if None."""

    @property
    def theta(self) -> CategoricalTheta:
        return CategoricalTheta.of(TransitionIntervals.point(self.chain.tolist()))

    @property
    def emission(self) -> Floats:
        return np.array(randomized_response(len(self.chain), largest_tilt(self.theta, self.epsilon).tau))

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


SCENARIOS = (
    *(
        CategoricalScenario(name, chain, epsilon, update, spread)
        for name, chain, epsilon, update in (
            ("THREE", THREE, 8, 1),
            ("THREE", THREE, 4, 1),
            ("THREE", THREE, 4, 4),
            ("THREE", THREE, 2, 6),
            ("FOUR", FOUR, 8, 1),
            ("FOUR", FOUR, 4, 6),
        )
        for spread in (0.0, 0.15, 0.5)
    ),
    *(CategoricalScenario("SLOW", SLOW, 8, 6, spread) for spread in (0.0, 0.5)),
    CategoricalScenario("THREE", THREE, 8, 1, 0.5, rows=1),
    CategoricalScenario("FOUR", FOUR, 8, 1, 0.5, rows=2),
    *(CategoricalScenario("THREE", THREE, 8, 1, spread, devices=40) for spread in (0.0, 0.15, 0.5)),
    *(CategoricalScenario("FOUR", FOUR, 8, 1, spread, devices=40) for spread in (0.0, 0.15, 0.5)),
)


@dataclass(frozen=True, slots=True)
class CategoricalCoverage:
    """The coverage of a device's region, of that region narrowed by a quarter, and of the cohort's for a new device."""

    own: float
    narrower: float
    newcomer: float
    own_width: float
    cohort_width: float


def coverage(setting: CategoricalScenario, *, cohorts: int, seed: int) -> CategoricalCoverage:
    """Simulates cohorts and counts how often regions contain all entries."""
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
    return CategoricalCoverage(
        *np.concatenate(held).mean(axis=0).tolist(), *np.median(widths, axis=0).tolist()
    )


def fitted(
    setting: CategoricalScenario, *, cohorts: int, rng: np.random.Generator
) -> Iterator[tuple[Floats, Floats, CategoricalFit]]:
    """Simulated cohorts: the chains of their devices, as many others, and the fit."""
    k, m = len(setting.chain), setting.devices
    emission, scale = setting.emission, setting.scale
    number, draws = windows_used(setting.update)
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


@dataclass(frozen=True, slots=True)
class Recorded:
    """A cohort of sanitized recordings, with noise for the chain fitted to all of them: misfit and coverage."""

    kept: float
    misfit: Misfit
    rows: float
    """The share of rows of the devices' empirical transition matrices that the device's region contains."""
    slower: float
    """The share of rows whose self-transition probability is above the device's region."""
    width: float


def recorded(
    group: Sequence[Recording], epsilon: float, *, window: int, rng: np.random.Generator
) -> Recorded:
    """Sanitizes, counts, draws noise once, fits and compares."""
    k = group[0].k
    setting = CategoricalScenario(
        "recorded", np.array(fitted_chain(group).transition), epsilon, 1, 0.0, devices=len(group)
    )
    lies = np.cumsum(setting.emission, axis=1)[:, :-1]
    sums = []
    for recording in group:
        sums.append(CategoricalSums(k))
        for piece in recording.pieces:
            for first in range(0, len(piece), window):
                states = piece[first : first + window]
                sent = (rng.random((len(states), 1)) > lies[states]).sum(axis=1)
                sums[-1].add(sent.astype(np.uint8).tobytes())
    seen = evidence_of(sums, setting.emission, scale=setting.scale, draws=1, rng=rng)
    found = fit(seen)
    if found is None:
        raise RuntimeError("so many recordings must have a fit")
    low, high = device_intervals(found)
    held = []
    for number, recording in enumerate(group):
        counts = np.zeros((k, k))
        for piece in recording.pieces:
            np.add.at(counts, (piece[:-1], piece[1:]), 1)
        for way, pairs in enumerate((counts, counts.T)):
            for u in np.flatnonzero(pairs.sum(axis=1) >= OFTEN):
                row = pairs[u] / pairs[u].sum()
                within = (low[number, way, u] <= row) & (row <= high[number, way, u])
                held.append((bool(within.all()), bool(row[u] > high[number, way, u, u])))
    away = ~np.eye(k, dtype=bool)
    width = float(np.median((high - low)[:, 0][:, away]))
    kept = float(setting.emission[0, 0])
    rows, slower = np.mean(held, axis=0).tolist()
    return Recorded(kept, measure(seen, found), rows, slower, width)


def recordings(data: Path) -> Iterator[tuple[str, int, tuple[float, ...], Callable[[], list[Recording]]]]:
    """Name, ticks of a window, ε and the recordings themselves, of each cohort."""
    job = Job("estimation", quick=False, seed=1, data=data, progress=lambda share, what: None)

    def sleepers(bins: int) -> list[Recording]:
        return [binned(name, rates, bins) for name, rates in heart_rates(job).items()]

    yield "activity, 4 states", 1_440, (8.0, 16.0, 24.0), lambda: people(job)
    yield "heart rate, 3 bins", WINDOW, (2.0, 4.0, 8.0), lambda: sleepers(3)
    yield "heart rate, 4 bins", WINDOW, (4.0, 8.0), lambda: sleepers(4)


def print_misfit(data: Path, seed: int) -> None:
    """Print what the recordings say."""
    heads = " | ".join(f"lags {first}–{last}: seen, fitted" for first, last in BANDS)
    print(f"| recordings | ε | kept | {heads} | log κ | rows held, slower | width |")
    print("|---" * (len(BANDS) + 6) + "|")
    for name, window, epsilons, load in recordings(data):
        try:
            group = load()
        except Missing as missing:
            print(f"{name}: skipped: {missing}", file=sys.stderr)
            continue
        for epsilon in epsilons:
            found = recorded(group, epsilon, window=window, rng=np.random.default_rng(seed))
            bands = " | ".join(
                f"{one.seen:.2f} ± {one.error:.2f}, {one.fitted:.2f}" for one in found.misfit.bands
            )
            print(
                f"| {name} | {epsilon:g} | {found.kept:.3f} | {bands} | {found.misfit.shift:.2f} "
                f"| {found.rows:.0%}, {found.slower:.0%} | {found.width:.3f} |",
                flush=True,
            )


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m hushmq.evaluation.estimation.categorical_coverage", description=__doc__
    )
    parser.add_argument("table", choices=("coverage", "misfit"))
    parser.add_argument("--runs", type=int, default=300, help="cohorts per line (300)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", default=":", help="which lines of the table, as 4:8 (all)")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the recordings")
    args = parser.parse_args(argv)
    started = time.monotonic()
    if args.table == "misfit":
        print_misfit(args.data, args.seed)
    else:
        print_coverage(args.lines, args.runs, args.seed)
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


def print_coverage(lines: str, runs: int, seed: int) -> None:
    """Simulate and print so many cohorts for each of the lines."""
    print(
        "| chain | spread | ε | kept | devices | update | own region | ¼ narrower | newcomer | width: own, cohort |"
    )
    print("|---" * 10 + "|")
    first, last = (int(end) if end else None for end in lines.split(":"))
    for setting in SCENARIOS[first:last]:
        found = coverage(setting, cohorts=runs, seed=seed)
        print(
            f"| {setting.name} | {setting.apart} | {setting.epsilon:g} | {setting.emission[0, 0]:.3f} "
            f"| {setting.devices} | {setting.update} | {found.own:.1%} | {found.narrower:.1%} "
            f"| {found.newcomer:.1%} | {found.own_width:.3f}, {found.cohort_width:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
