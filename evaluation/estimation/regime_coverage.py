"""The coverage of 95% regions for a device's chain with regimes, and how long it takes to learn one.

`python -m hushmq.evaluation.estimation.regime_coverage coverage` simulates cohorts tick by published tick, counts and
charges their statistics as the calibrator does, and prints a table; `… alone` does it for devices by themselves over a
growing number of windows; `… priced` searches regions for chains that lose more than the chains that price them.
docs/estimation.md has them as recorded.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.regime.regime_coordinates import RegimeCoordinates
from hushmq.calibrator.models.regime.regime_fit import alone, fit
from hushmq.calibrator.models.regime.regime_intervals import RegimeIntervals
from hushmq.calibrator.models.regime.regime_region import cohort_region, device_regions
from hushmq.calibrator.models.regime.regime_statistics import RegimeSums
from hushmq.evaluation.estimation.sanitized_binary import LearningCharge, draws
from hushmq.evaluation.estimation.sanitized_regimes import counted, evidence, sanitized
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.regimes.product_tilt import directed_loss
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_tilts import largest_tilts

Floats = NDArray[np.float64]

SLEEPERS = (
    *(
        (0.378, 0.263, 1 / 238, 0.499, 0.22),
        (0.457, 0.584, 1 / 6003, 0.191, 0.46),
        (0.480, 0.322, 1 / 135, 0.633, 0.28),
    ),
    *(
        (0.529, 0.212, 1 / 2192, 0.698, 0.48),
        (0.384, 0.194, 1 / 41, 0.765, 0.19),
        (0.438, 0.328, 1 / 352, 0.530, 0.47),
    ),
    *(
        (0.390, 0.652, 1 / 2718, 0.655, 0.30),
        (0.518, 0.304, 1 / 1478, 0.558, 0.40),
        (0.338, 0.762, 1 / 5096, 0.207, 0.30),
    ),
    *((0.450, 0.538, 1 / 1867, 0.400, 0.46), (0.394, 0.445, 1 / 155, 0.362, 0.39)),
)
"""Of the recordings N1 … N11: share of ones, slow share, slow rate and fast rate, by least squares from the
correlations over eight bands of lags; the time in the upper regime from two regimes fitted by maximum likelihood."""
N10 = SLEEPERS[9]
WINDOW = 7_200
"""An hour at 2 Hz."""
DAY = 24 * WINDOW


@dataclass(frozen=True)
class RegimeScenario:
    """One line of the table. The noise is what keeps ε for N10's chain, at the stride; half of ε is the public's."""

    kind: str
    epsilon: float
    stride: int
    devices: int
    windows: int
    window: int = WINDOW

    @cached_property
    def noise(self) -> BinaryNoise:
        return BinaryNoise.of_tilts(*largest_tilts(chain_of(N10), self.epsilon, self.stride))

    @cached_property
    def charge(self) -> LearningCharge:
        """Half of what the public's ε leaves for a window goes into learning, drawn as often as the calibrator does."""
        tilt = self.noise.release_tilt(min(largest_tilts(chain_of(N10), self.epsilon / 2, self.stride)))
        return LearningCharge(min(tilt, 8.0) / 2, draws(self.windows))

    def chains(self, count: int, rng: np.random.Generator) -> list[tuple[float, ...]]:
        """Coordinates, and times in the upper regime."""
        if self.kind == "N1–N11":
            return [SLEEPERS[number % len(SLEEPERS)] for number in range(count)]
        if self.kind == "N10":
            return [N10] * count
        return mixed(count, rng)


def chain_of(values: Sequence[float]) -> RegimeChain:
    """The chain with these coordinates and this time in the upper regime."""
    return RegimeCoordinates(*values[:4]).chain(values[4])


def mixed(count: int, rng: np.random.Generator) -> list[tuple[float, ...]]:
    """Draws from the normal law of the sleepers' logits and logarithms; the time in the upper regime is anywhere."""
    known = np.array(SLEEPERS)[:, :4]
    turned = np.stack(
        [*(np.log(known[:, i] / (1 - known[:, i])) for i in (0, 1)), *np.log(known[:, 2:]).T], axis=1
    )
    centre, spread = turned.mean(axis=0), np.cov(turned.T)
    found: list[tuple[float, ...]] = []
    while len(found) < count:
        draw = rng.multivariate_normal(centre, spread)
        share, slow_share = (float(1 / (1 + np.exp(-one))) for one in draw[:2])
        chain = RegimeCoordinates(share, slow_share, float(np.exp(draw[2])), min(1.0, float(np.exp(draw[3]))))
        ends = chain.upper_times()
        if 2**-13 < chain.slow_rate < chain.fast_rate / 2 and chain.fast_rate > 0.04 and ends is not None:
            time_ = float(rng.uniform(*ends))
            found.append((share, slow_share, chain.slow_rate, chain.fast_rate, time_))
    return found


SCENARIOS = (
    *(RegimeScenario("N1–N11", 4, 3, 11, windows) for windows in (8, 24)),
    RegimeScenario("N10", 4, 3, 11, 24),
    RegimeScenario("mixed", 4, 3, 40, 8),
    *(RegimeScenario("N1–N11", 4, 30, 11, windows, DAY) for windows in (4, 8)),
    RegimeScenario("mixed", 4, 30, 40, 4, DAY),
    *(RegimeScenario("N1–N11", 2, stride, 11, 8, DAY) for stride in (300, 1000)),
    RegimeScenario("N10", 2, 1000, 11, 24, DAY),
    RegimeScenario("N1–N11", 1, 3000, 11, 24, DAY),
)


@dataclass(frozen=True, slots=True)
class RegimeCoverage:
    """How often a device's region holds its chain, and the cohort's that of another; median widths of a device's."""

    own: float
    newcomer: float
    slow_share: float
    slow_rate: float
    """As a factor."""


def coverage(setting: RegimeScenario, *, cohorts: int, seed: int) -> RegimeCoverage:
    """Simulates cohorts and counts how often regions hold the chains."""
    rng = np.random.Generator(np.random.SFC64(seed))
    total = cohorts * setting.devices
    truth, strangers = setting.chains(total, rng), setting.chains(total, rng)
    held, sizes = [], []
    per_call = max(setting.devices, 4_000 // setting.devices * setting.devices)
    for first in range(0, total, per_call):
        part = truth[first : first + per_call]
        sums = _simulated(setting, part, setting.windows, rng)
        for start in range(0, len(part), setting.devices):
            mine = sums[start : start + setting.devices]
            found = fit(evidence(mine, setting.noise, charge=setting.charge, rng=rng))
            if found is None:
                raise RuntimeError("a cohort of this size must have a fit")
            whole = cohort_region(found)
            for index, own in enumerate(device_regions(found).values()):
                place = first + start + index
                held.append((_holds(own, truth[place]), _holds(whole, strangers[place])))
                sizes.append(_size(own))
    return RegimeCoverage(*np.mean(held, axis=0).tolist(), *np.median(sizes, axis=0).tolist())


def _simulated(
    setting: RegimeScenario, chains: Sequence[Sequence[float]], windows: int, rng: np.random.Generator
) -> list[RegimeSums]:
    each = [chain_of(one) for one in chains]
    count = windows * setting.window // setting.stride
    states = sanitized(each, setting.noise, stride=setting.stride, count=count, rng=rng)
    return counted(states, stride=setting.stride, window=setting.window)


def _holds(region: RegimeIntervals, values: Sequence[float]) -> bool:
    return region.holds(RegimeCoordinates(*values[:4]))


def _size(region: RegimeIntervals) -> tuple[float, float]:
    return region.slow_share[1] - region.slow_share[0], region.slow_rate[1] / region.slow_rate[0]


def learned_alone(setting: RegimeScenario, *, devices: int, seed: int) -> RegimeCoverage:
    """The same for devices by themselves, each with the evidence of its own windows alone."""
    rng = np.random.Generator(np.random.SFC64(seed))
    truth = setting.chains(devices, rng)
    sums = _simulated(setting, truth, setting.windows, rng)
    found = device_regions(alone(evidence(sums, setting.noise, charge=setting.charge, rng=rng)))
    held = [_holds(own, one) for own, one in zip(found.values(), truth, strict=True)]
    sizes = np.median([_size(own) for own in found.values()], axis=0).tolist()
    return RegimeCoverage(float(np.mean(held)), float("nan"), *sizes)


@dataclass(frozen=True, slots=True)
class PricedRegions:
    """How many chains inside random regions were tried; the largest loss beyond that of the chains that price them.

    Relative; where these lose up to 6, and where they lose more.
    """

    tried: int
    usual: float
    extreme: float


def priced(regions: int, seed: int) -> PricedRegions:
    """Random regions, tilts and strides: chains inside against the chains that price the region, both directions."""
    rng = np.random.default_rng(seed)
    tried, worst = 0, [0.0, 0.0]
    for _ in range(regions):
        share, slow_share = rng.uniform(0.15, 0.85), rng.uniform(0.02, 0.8)
        slow = float(np.exp(rng.uniform(np.log(1 / 4000), np.log(1 / 20))))
        fast = float(np.exp(rng.uniform(np.log(min(0.9, max(0.05, 9 * slow))), 0.0)))
        early = rng.uniform(0.05, 0.6)
        region = RegimeIntervals(
            (max(0.02, share - rng.uniform(0, 0.12)), min(0.98, share + rng.uniform(0, 0.12))),
            (slow_share, min(0.97, slow_share + rng.uniform(0, 0.4))),
            (slow, slow * rng.uniform(1, 4)),
            (fast, min(1.0, fast * rng.uniform(1, 2))),
        )
        times = (early, min(0.95, early + rng.uniform(0, 0.4)))
        stride, tau = int(rng.choice([1, 3, 10, 30, 100, 300])), float(rng.choice([0.05, 0.2, 0.5, 1.0, 2.0]))
        inside = _inside(region, times, 6, rng)
        priced_by = region.chains(times) if inside else ()
        for bit in range(2) if inside else ():
            most = max(directed_loss(one, bit, tau, stride) for one in priced_by)
            over = max(directed_loss(one, bit, tau, stride) for one in inside) / most - 1
            worst[int(most > 6)] = max(worst[int(most > 6)], over)
        tried += len(inside)
    return PricedRegions(tried, *worst)


def _inside(
    region: RegimeIntervals, times: tuple[float, float], count: int, rng: np.random.Generator
) -> list[RegimeChain]:
    found = []
    for _ in range(count):
        chain = RegimeCoordinates(
            *(
                float(rng.uniform(*side))
                for side in (region.share, region.slow_share, region.slow_rate, region.fast_rate)
            )
        )
        ends = chain.upper_times()
        if ends is not None and max(ends[0], times[0]) <= min(ends[1], times[1]):
            low, high = max(ends[0], times[0]), min(ends[1], times[1])
            found.append(chain.chain(float(rng.choice([low, high, rng.uniform(low, high)]))))
    return found


ALONE = (
    *(RegimeScenario("N1–N11", 4, 30, 11, windows, DAY) for windows in (4, 8, 24)),
    *(RegimeScenario("N10", 2, 1000, 11, windows, DAY) for windows in (24, 96)),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=("coverage", "alone", "priced"))
    parser.add_argument("--runs", type=int, help="cohorts, devices or regions; 300, 330 and 300 unless given")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    started = time.monotonic()
    if args.table == "priced":
        found = priced(args.runs or 300, args.seed)
        beyond = (f"{max(0.0, one):.1%}" for one in (found.usual, found.extreme))
        print(f"{found.tried} chains; beyond: {next(beyond)} up to a loss of 6, {next(beyond)} above")
    else:
        print(
            "| cohort | ε | s | stride | devices | ticks | region holds | newcomer | width: slow share, slow rate |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
        for setting in SCENARIOS if args.table == "coverage" else ALONE:
            one = (
                coverage(setting, cohorts=args.runs or 300, seed=args.seed)
                if args.table == "coverage"
                else learned_alone(setting, devices=args.runs or 330, seed=args.seed)
            )
            others = "" if np.isnan(one.newcomer) else f"{one.newcomer:.1%}"
            devices = 1 if args.table == "alone" else setting.devices
            print(
                f"| {setting.kind} | {setting.epsilon:g} | {setting.noise.signal:.3f} | {setting.stride} "
                f"| {devices} | {setting.windows * setting.window:,} | {one.own:.1%} | {others} "
                f"| {one.slow_share:.2f}, ×{one.slow_rate:.1f} |",
                flush=True,
            )
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
