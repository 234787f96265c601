"""The recordings N1 … N11 against chains with two regimes: the misfit, and which regions hold their correlations.

`python -m hushmq.evaluation.estimation.regime_recordings`; docs/estimation.md has the table as recorded.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.misfit import UNSEEN, Band, Misfit
from hushmq.calibrator.models.regime.regime_coordinates import RegimeCoordinates
from hushmq.calibrator.models.regime.regime_fit import fit
from hushmq.calibrator.models.regime.regime_misfit import measure
from hushmq.calibrator.models.regime.regime_region import device_regions
from hushmq.calibrator.models.regime.regime_statistics import RegimeSums
from hushmq.evaluation.estimation.binary_coverage import recorded_states
from hushmq.evaluation.estimation.regime_coverage import SLEEPERS, RegimeScenario
from hushmq.evaluation.estimation.sanitized_binary import LearningCharge
from hushmq.evaluation.estimation.sanitized_regimes import evidence

FREE = LearningCharge(50.0, 1)
"""A charge so large that it adds no noise."""


@dataclass(frozen=True, slots=True)
class RecordedRegimes:
    """How the recordings were seen, the misfit, and how many regions hold their recording's own correlations."""

    epsilon: float
    stride: int
    charged: bool
    misfit: Misfit
    held: int


def measured(
    recorded: Mapping[str, NDArray[np.bool_]], lines: Sequence[tuple[float, int, bool]], *, seed: int
) -> Iterator[RecordedRegimes]:
    """Each recording as one window, through the noise that keeps ε for N10's chain at the stride."""
    rng = np.random.default_rng(seed)
    for epsilon, stride, charged in lines:
        setting = RegimeScenario("N1–N11", epsilon, stride, len(recorded), 4)
        sums = []
        for whole in recorded.values():
            states = whole[::stride]
            flips = rng.random(len(states)) < np.where(states, setting.noise.rho1, setting.noise.rho0)
            sums.append(RegimeSums(stride))
            sums[-1].add((states ^ flips).astype(np.uint8).tobytes())
        seen = evidence(sums, setting.noise, charge=setting.charge if charged else FREE, rng=rng)
        found = fit(seen)
        if found is None:
            raise RuntimeError("eleven recordings must have a fit")
        regions = device_regions(found).values()
        held = sum(
            own.holds(RegimeCoordinates(*values[:4])) for own, values in zip(regions, SLEEPERS, strict=True)
        )
        yield RecordedRegimes(epsilon, stride, charged, measure(seen, found), held)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("../shared/data/meditation/normal_N1-N11.csv.gz"),
        help="the recordings",
    )
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    lines = ((4, 3, True), (4, 3, False), (4, 30, False), (8, 1, False))
    print("| ε | stride | charged | regions that hold | by band of lags: seen, fitted; * is a misfit |")
    print("|---|---|---|---|---|")
    for one in measured(recorded_states(args.data), lines, seed=args.seed):
        bands = "; ".join(_in_words(band) for band in one.misfit.bands if band.error < UNSEEN)
        charged = "yes" if one.charged else "no"
        print(f"| {one.epsilon:g} | {one.stride} | {charged} | {one.held} of {len(SLEEPERS)} | {bands} |")
    return 0


def _in_words(band: Band) -> str:
    mark = "*" if band.excess else ""
    return f"{band.first}–{band.last}: {band.seen:.2f} ± {band.error:.2f}, {band.fitted:.2f}{mark}"


if __name__ == "__main__":
    sys.exit(main())
