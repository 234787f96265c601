"""The coverage of 95% confidence regions for a device's chain, and the efficiency of the estimate.

`python -m hushmq.evaluation.estimation.binary_coverage coverage` simulates cohorts, counts and charges their
statistics as the calibrator does, and prints a table; `… error` compares with the full likelihood (hmmlearn,
emissions held fixed); `… misfit` measures the heart-rate recordings against first-order chains; `… spread` shows, on
normal devices, why T is taken at its upper end and regions are made narrower again. docs/estimation.md has them as
recorded.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.binary.binary_fit import CAUTION, chain, fit, pooled
from hushmq.calibrator.models.binary.binary_misfit import measure
from hushmq.calibrator.models.binary.binary_region import cohort_region, device_regions
from hushmq.calibrator.models.binary.binary_statistics import BinarySums
from hushmq.calibrator.models.device_spread import SPREAD_CONFIDENCE
from hushmq.calibrator.models.lag_bands import BANDS
from hushmq.calibrator.models.misfit import Misfit
from hushmq.calibrator.models.quantiles import chi_square_quantile
from hushmq.evaluation.estimation.sanitized_binary import (
    LearningCharge,
    counted,
    draws,
    evidence,
    in_cohorts,
    sanitized,
)
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import largest_tilts, optimal_noise

Floats = NDArray[np.float64]

SLEEPERS = np.array(
    [
        *[(0.158, 0.261), (0.057, 0.068), (0.215, 0.233), (0.277, 0.247), (0.238, 0.383), (0.183, 0.236)],
        *[(0.095, 0.149), (0.225, 0.210), (0.023, 0.045), (0.089, 0.109), (0.103, 0.158)],
    ]
)
"""q and r of the heart-rate recordings N1 … N11, fitted at lag 1."""
WINDOW = 7_200
"""An hour at 2 Hz."""
CHUNK = 120_000_000
"""The number of states simulated in one call."""


@dataclass(frozen=True, slots=True)
class BinaryScenario:
    """One line of the table: the type of cohort, ε, the Θ that the noise was calibrated for, and the amount of data."""

    kind: str
    epsilon: float
    devices: int
    ticks: int
    theta: BinaryTheta
    spread: float = 0.0
    """In logits, for the kind `near`."""

    @property
    def noise(self) -> BinaryNoise:
        return optimal_noise(self.theta, self.epsilon)

    @property
    def charge(self) -> LearningCharge:
        """Half of what the public, with half the operator's ε, leaves for a window goes into learning.

        Noise is drawn as often as the calibrator would.
        """
        tilt = self.noise.release_tilt(min(largest_tilts(self.theta, self.epsilon / 2)))
        return LearningCharge(min(tilt, 8.0) / 2, draws(-(-self.ticks // WINDOW)))

    def chains(self, count: int, rng: np.random.Generator) -> Floats:
        if self.kind == "demo":
            number = np.arange(count) % self.devices
            return np.stack([0.26 + 0.02 * (number % 3), 0.35 + 0.02 * (number % 4)], axis=1)
        if self.kind == "N1–N11":
            return np.tile(SLEEPERS, (-(-count // len(SLEEPERS)), 1))[:count]
        if self.kind == "mixed":
            logits = np.log(SLEEPERS / (1 - SLEEPERS))
            drawn = rng.multivariate_normal(logits.mean(axis=0), np.cov(logits.T), count)
        else:
            point = np.array([self.theta.q_low, self.theta.r_low])
            drawn = np.log(point / (1 - point)) + rng.normal(0, self.spread, (count, 2))
        chains: Floats = 1 / (1 + np.exp(-drawn))
        return chains


N10 = BinaryTheta.point(0.089, 0.109)
QUICK = BinaryTheta.point(0.3, 0.2)
SLOW = BinaryTheta.point(0.03, 0.05)
WIDE = BinaryTheta(0.02, 0.5, 0.04, 0.5)
MIDDLE = BinaryTheta(0.1, 0.4, 0.1, 0.4)
SCENARIOS = (
    *(BinaryScenario("alike", epsilon, 11, 20_000, N10) for epsilon in (1, 2, 4)),
    *(BinaryScenario("alike", epsilon, 11, 20_000, QUICK) for epsilon in (1, 2, 4)),
    *(BinaryScenario("alike", epsilon, 40, 20_000, N10) for epsilon in (2, 4)),
    *(BinaryScenario("near", epsilon, 11, 20_000, N10, 0.15) for epsilon in (1, 2, 4)),
    *(BinaryScenario("near", epsilon, 11, 20_000, QUICK, 0.15) for epsilon in (1, 2, 4)),
    *(BinaryScenario("N1–N11", epsilon, 11, 20_000, MIDDLE) for epsilon in (1, 2, 4)),
    *(BinaryScenario("mixed", epsilon, 40, 20_000, MIDDLE) for epsilon in (1, 2, 4)),
    BinaryScenario("N1–N11", 4, 11, 24 * WINDOW, WIDE),
    BinaryScenario("alike", 1, 11, 48 * WINDOW, N10),
    BinaryScenario("N1–N11", 1, 11, 48 * WINDOW, MIDDLE),
)
"""20,000 ticks are before the first theta update; 24 windows are what the fourth uses, 48 what the fifth does."""


@dataclass(frozen=True, slots=True)
class BinaryCoverage:
    """The coverage of a device's region, of that region narrowed by a quarter, and of the cohort's for a new device."""

    own: float
    narrower: float
    newcomer: float
    own_width: float
    cohort_width: float


def coverage(setting: BinaryScenario, *, cohorts: int, seed: int) -> BinaryCoverage:
    """Simulates cohorts and counts how often regions contain the chains."""
    rng = np.random.Generator(np.random.SFC64(seed))
    total = cohorts * setting.devices
    truth, strangers = setting.chains(total, rng), setting.chains(total, rng)
    sums: list[BinarySums] = []
    step = max(4, CHUNK // setting.ticks)
    for first in range(0, total, step):
        q, r = truth[first : first + step].T
        packed = sanitized(q, r, setting.noise, ticks=setting.ticks, rng=rng)
        sums += counted(packed, ticks=setting.ticks, window=WINDOW)
    held: list[tuple[bool, bool, bool]] = []
    widths: list[tuple[float, float]] = []
    for number, cohort in enumerate(in_cohorts(sums, setting.devices)):
        found = fit(evidence(cohort, setting.noise, charge=setting.charge, rng=rng))
        if found is None:
            raise RuntimeError("a cohort of this size must have a fit")
        whole = cohort_region(found)
        for index, own in enumerate(device_regions(found).values()):
            place = number * setting.devices + index
            held.append(
                (_holds(own, truth[place]), _holds(own, truth[place], 0.75), _holds(whole, strangers[place]))
            )
            widths.append((own.q_high - own.q_low, whole.q_high - whole.q_low))
    return BinaryCoverage(*np.mean(held, axis=0).tolist(), *np.median(widths, axis=0).tolist())


def _holds(region: BinaryTheta, chain_: Floats, share: float = 1.0) -> bool:
    """Whether the region contains the chain, with its sides, in logits, cut to a share of their length."""
    ends = np.array([[region.q_low, region.r_low], [region.q_high, region.r_high], list(chain_)])
    low, high, x = np.log(ends / (1 - ends))
    return bool((np.abs(x - (low + high) / 2) <= share * (high - low) / 2).all())


@dataclass(frozen=True, slots=True)
class Errors:
    """Root mean square errors of q: charged statistics, the same without the charged noise, the full likelihood."""

    charged: float
    free: float
    likelihood: float


def errors(setting: BinaryScenario, *, runs: int, seed: int) -> Errors:
    """Pools the devices of a cohort with equal chains, and compares with the maximum likelihood of all their states."""
    rng = np.random.Generator(np.random.SFC64(seed))
    q, r = (np.full(setting.devices, end) for end in (setting.theta.q_low, setting.theta.r_low))
    noise = setting.noise
    off = []
    for _ in range(runs):
        packed = sanitized(q, r, noise, ticks=setting.ticks, rng=rng)
        sums = counted(packed, ticks=setting.ticks, window=WINDOW)
        estimates = []
        for charge in (setting.charge, None):
            best = pooled(evidence(sums, noise, charge=charge, rng=rng))
            if best is None:
                raise RuntimeError("there are ticks")
            pi1, lam = chain(best[0])
            estimates.append(float((1 - lam) * pi1))
        states = np.unpackbits(packed, axis=1, bitorder="little", count=setting.ticks)
        estimates.append(_likeliest(states.astype(np.int64), noise, (float(q[0]), float(r[0]))))
        off.append(np.array(estimates) - q[0])
    return Errors(*np.sqrt(np.mean(np.square(off), axis=0)).tolist())


def _likeliest(states: NDArray[np.int64], noise: BinaryNoise, start: tuple[float, float]) -> float:
    """The q where hmmlearn's likelihood of all states, emissions held fixed, is largest."""
    from hmmlearn.hmm import CategoricalHMM  # noqa: PLC0415  # a development dependency, wanted only here
    from scipy.optimize import minimize  # noqa: PLC0415  # as hmmlearn

    model = CategoricalHMM(2)
    model.n_features = 2
    model.emissionprob_ = np.array([[1 - noise.rho0, noise.rho0], [noise.rho1, 1 - noise.rho1]])

    def lost(x: Floats) -> float:
        q, r = 1 / (1 + np.exp(-np.clip(x, -12, 12)))
        model.startprob_ = np.array([r, q]) / (q + r)
        model.transmat_ = np.array([[1 - q, q], [r, 1 - r]])
        return -float(model.score(states.reshape(-1, 1), [states.shape[1]] * len(states)))

    begin = np.log(start) - np.log1p(-np.array(start))
    found = minimize(lost, begin, method="Nelder-Mead", options={"xatol": 2e-3, "fatol": 1e-3})
    return float(1 / (1 + np.exp(-found.x[0])))


COMPARED = (
    *(BinaryScenario("alike", 4, 4, 20_000, theta) for theta in (N10, QUICK)),
    *(BinaryScenario("alike", 2, 10, 20_000, theta) for theta in (N10, QUICK)),
    BinaryScenario("alike", 1, 20, 20_000, QUICK),
    BinaryScenario("alike", 4, 10, 20_000, SLOW),
    BinaryScenario("alike", 4, 4, 48 * WINDOW, SLOW),
)


def recorded_states(data: Path) -> dict[str, NDArray[np.bool_]]:
    """Whether each beat of the recordings N1 … N11 is at or above its recording's mean."""
    beats: dict[str, list[float]] = {}
    with gzip.open(data, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            beats.setdefault(row["subject"], []).append(float(row["hr_bpm"]))
    return {subject: np.array(rates) >= np.mean(rates) for subject, rates in beats.items()}


def misfit(
    data: Path, epsilons: Sequence[float], *, seed: int
) -> Iterator[tuple[float, Misfit, BinaryTheta]]:
    """The recordings, above or below their mean, through noise for Θ = MIDDLE: misfit, and the cohort's region."""
    recorded = recorded_states(data)
    rng = np.random.default_rng(seed)
    for epsilon in epsilons:
        setting = BinaryScenario("recorded", epsilon, len(recorded), 22_000, MIDDLE)
        sums = []
        for states in recorded.values():
            flips = rng.random(len(states)) < np.where(states, setting.noise.rho1, setting.noise.rho0)
            sums.append(BinarySums())
            sums[-1].add((states ^ flips).astype(np.uint8).tobytes())
        seen = evidence(sums, setting.noise, charge=setting.charge, rng=rng)
        found = fit(seen)
        if found is None:
            raise RuntimeError("eleven recordings must have a fit")
        yield epsilon, measure(seen, found), cohort_region(found)


def covered_by_spread(
    confidence: float, caution: float, spread: float, *, devices: int, cohorts: int, seed: int
) -> float:
    """The coverage of 95% rectangles for normal devices, both coordinates with sampling variance 1 and this spread.

    T is taken at the upper end of this confidence, and what rests on it alone is made narrower by the caution, as
    in calibrator/models/binary/binary_fit.py.
    """
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, spread**0.5, (2, cohorts, devices))
    seen = truth + rng.normal(0, 1, truth.shape)
    centre = seen.mean(axis=2, keepdims=True)
    square = ((seen - centre) ** 2).sum(axis=2, keepdims=True)
    upper = np.maximum(square / chi_square_quantile(1 - confidence, devices - 1) - 1, 0)
    lean = 1 / (1 + upper)
    whole = 1 - lean + lean**2 * (1 + upper) / devices
    error = np.sqrt(whole) * (1 - caution * lean * (1 - lean) / whole)
    within = np.abs(truth - lean * centre - (1 - lean) * seen) <= 2.236 * error
    return float(within.all(axis=0).mean())


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m hushmq.evaluation.estimation.binary_coverage", description=__doc__
    )
    parser.add_argument("table", choices=("coverage", "error", "misfit", "spread"))
    parser.add_argument("--runs", type=int, help="cohorts per line (300), or estimates per line (100)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("../shared/data/meditation/normal_N1-N11.csv.gz"),
        help="the recordings",
    )
    args = parser.parse_args(argv)
    started = time.monotonic()
    if args.table == "coverage":
        print(
            "| cohort | ε | s | devices | ticks | own region | ¼ narrower | newcomer | width of q: own, cohort |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
        for setting in SCENARIOS:
            found = coverage(setting, cohorts=args.runs or 300, seed=args.seed)
            print(
                f"| {named(setting)} | {setting.epsilon:g} | {_signal(setting):.3f} | {setting.devices} "
                f"| {setting.ticks:,} | {found.own:.1%} | {found.narrower:.1%} | {found.newcomer:.1%} "
                f"| {found.own_width:.3f}, {found.cohort_width:.3f} |",
                flush=True,
            )
    elif args.table == "spread":
        spreads = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 2.0, 8.0)
        print("| devices | T at, caution | " + " | ".join(f"T = {spread:g}" for spread in spreads) + " |")
        print("|---" * (len(spreads) + 2) + "|")
        for devices in (5, 11, 40, 150):
            for confidence, caution in ((0.5, 0.0), (0.85, 0.0), (SPREAD_CONFIDENCE, CAUTION)):
                held = [
                    covered_by_spread(
                        confidence,
                        caution,
                        one,
                        devices=devices,
                        cohorts=args.runs or 4000,
                        seed=args.seed,
                    )
                    for one in spreads
                ]
                shares = " | ".join(f"{one:.1%}" for one in held)
                print(f"| {devices} | {confidence:g}, {caution:g} | {shares} |")
    elif args.table == "misfit":
        heads = " | ".join(f"lags {first}–{last}: seen, fitted" for first, last in BANDS)
        print(f"| ε | {heads} | shift of b | q, r of the cohort |")
        print("|---" * (len(BANDS) + 3) + "|")
        for epsilon, measured, region in misfit(args.data, (2, 4, 8), seed=args.seed):
            bands = " | ".join(
                f"{one.seen:.2f} ± {one.error:.2f}, {one.fitted:.2f}" for one in measured.bands
            )
            ends = f"{region.q_low:.4f}–{region.q_high:.2f}, {region.r_low:.4f}–{region.r_high:.2f}"
            print(f"| {epsilon:g} | {bands} | {measured.shift:.2f} | {ends} |")
    else:
        print(
            "| chain | ε | s | devices × ticks | charged | not charged | likelihood | ratio, charged | ratio, not |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
        for setting in COMPARED:
            error = errors(setting, runs=args.runs or 100, seed=args.seed)
            print(
                f"| q={setting.theta.q_low:g}, r={setting.theta.r_low:g} | {setting.epsilon:g} "
                f"| {_signal(setting):.3f} | {setting.devices} × {setting.ticks:,} | {error.charged:.4f} "
                f"| {error.free:.4f} | {error.likelihood:.4f} | {error.charged / error.likelihood:.2f} "
                f"| {error.free / error.likelihood:.2f} |",
                flush=True,
            )
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


def _signal(setting: BinaryScenario) -> float:
    return 1 - setting.noise.rho0 - setting.noise.rho1


def named(setting: BinaryScenario) -> str:
    if setting.kind in {"N1–N11", "mixed", "demo"}:
        return setting.kind
    spread = f" ± {setting.spread:g}" if setting.spread else ""
    return f"q={setting.theta.q_low:g}, r={setting.theta.r_low:g}{spread}"


if __name__ == "__main__":
    sys.exit(main())
