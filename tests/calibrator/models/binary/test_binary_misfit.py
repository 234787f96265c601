"""Misfit: long-lag correlation beyond the fitted chains is seen, measured and covered; a mixture of chains is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hushmq.calibrator.models.binary.binary_fit import BinaryFit, fit
from hushmq.calibrator.models.binary.binary_misfit import measure, slowed
from hushmq.calibrator.models.binary.binary_region import cohort_region
from hushmq.calibrator.models.binary.binary_statistics import BinarySums
from hushmq.calibrator.models.lag_bands import BANDS
from hushmq.calibrator.models.misfit import Band, Misfit, critical_value
from hushmq.evaluation.estimation.sanitized_binary import (
    LearningCharge,
    counted,
    evidence,
    in_cohorts,
    sanitized,
)
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

NOISE = BinaryNoise(0.15, 0.2)
CHARGE = LearningCharge(tilt=0.7, draws=3)


def fitted(sums: list[BinarySums], rng: np.random.Generator) -> tuple[BinaryFit, Misfit]:
    seen = evidence(sums, NOISE, charge=CHARGE, rng=rng)
    found = fit(seen)
    assert found is not None
    return found, measure(seen, found)


@pytest.mark.parametrize("spread", [0.0, 0.6])
def test_first_order_chains_have_no_misfit(spread: float) -> None:
    """Neither one chain nor a mixture of very different ones is taken for a misfit."""
    rng = np.random.default_rng(4)
    chains = 1 / (1 + np.exp(-rng.normal([-1.6, -1.2], spread, (20, 2))))
    _, misfit = fitted(counted(sanitized(*chains.T, NOISE, ticks=8000, rng=rng), ticks=8000), rng)
    assert misfit.shift == 0
    assert [band.excess for band in misfit.bands] == [0.0] * len(BANDS)


@pytest.mark.slow
def test_chance_is_taken_for_a_misfit_as_rarely_as_stated() -> None:
    """No more first-order cohorts than stated have an excess; standard errors half as large would show."""
    rng = np.random.default_rng(6)
    chains = 1 / (1 + np.exp(-rng.normal([-0.8, -1.4], 0.2, (900, 2))))
    sums = counted(sanitized(*chains.T, NOISE, ticks=4000, rng=rng), ticks=4000)
    found = [fitted(cohort, rng)[1] for cohort in in_cohorts(sums, 6)]
    most = np.array([max((band.seen - band.fitted) / band.error for band in one.bands) for one in found])
    assert np.mean(most > critical_value(0.2)) <= 0.2 < np.mean(2 * most > critical_value(0.2))


def slow_and_fast(rng: np.random.Generator, *, devices: int, ticks: int) -> list[BinarySums]:
    """Streams that change quickly around a level that changes slowly: not of first order."""
    slow = np.cumsum(rng.random((devices, ticks)) < 0.01, axis=1) % 2
    states = rng.random((devices, ticks)) < np.where(slow, 0.75, 0.2)
    flipped = rng.random((devices, ticks)) < np.where(states, NOISE.rho1, NOISE.rho0)
    found = []
    for row in states ^ flipped:
        sums = BinarySums()
        sums.add(row.astype(np.uint8).tobytes())
        found.append(sums)
    return found


def test_slow_levels_are_a_misfit_and_are_covered() -> None:
    """The excess at long lags is reported; the slowed Θ holds a chain as correlated at those lags as the data."""
    rng = np.random.default_rng(5)
    found, misfit = fitted(slow_and_fast(rng, devices=12, ticks=12_000), rng)
    far = misfit.bands[-1]
    assert far.excess > 0.05
    assert far.seen == pytest.approx(far.fitted + far.excess)
    assert misfit.shift < -0.2
    theta = cohort_region(found)
    lags = np.arange(far.first, far.last + 1)

    def slowest(box: BinaryTheta) -> float:
        return float(np.mean((1 - box.q_low - box.r_low) ** lags))

    assert slowest(slowed(theta, misfit.persistent_shares)) >= far.seen > slowest(theta)


@pytest.mark.parametrize("low", [(0.1, 0.2), (0.3, 0.6), (0.004, 0.007)])
def test_slowing_keeps_the_share_of_ones_and_adds_what_lasts(low: tuple[float, float]) -> None:
    """A chain keeps its π1 and gets the share of what its correlation had lost over a band; a box holds its chains'."""
    lags, shares = np.arange(BANDS[3][0], BANDS[3][1] + 1), (0.0, 0.0, 0.01, 0.2)
    moved = slowed(BinaryTheta(low[0], low[0], low[1], low[1]), shares)
    assert (moved.q_low, moved.r_low) == (moved.q_high, moved.r_high)
    assert slowed(BinaryTheta(low[0], 0.7, low[1], 0.65), shares).contains(moved)
    new = moved.q_low, moved.r_low
    assert new[0] / sum(new) == pytest.approx(low[0] / sum(low))
    before, after = (np.mean((1 - sum(ends)) ** lags) for ends in (low, new))
    assert after == pytest.approx(before + 0.2 * (1 - before), abs=2e-3)


def test_what_is_undetectable_would_not_be_significant_at_long_lags() -> None:
    """Doubt times the standard error of the worse of the long bands; short ones, and uncounted ones, do not matter."""
    bands = tuple(
        Band(*ends, 0.3, 0.2, error, 3.5) for ends, error in zip(BANDS, (0.5, 0.4, 0.02, 0.03), strict=True)
    )
    assert Misfit(bands, 0.0).undetectable == pytest.approx(3.5 * 0.03)
    short = (*bands[:3], replace(bands[3], error=1e6))
    assert Misfit(short, 0.0).undetectable == pytest.approx(3.5 * 0.02)
