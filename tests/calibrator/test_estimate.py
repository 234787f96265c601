"""Θ from charged statistics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrator.estimate import Moments, Statistic, moments, region, student_quantile
from pufferfish.binary import Noise


def expected(noise: Noise, q: float, r: float, ticks: int) -> Statistic:
    """The statistics an endless stream would have on average, rounded to counts."""
    pi1, s = q / (q + r), 1 - noise.rho0 - noise.rho1
    mean = noise.rho0 + s * pi1
    covariance = s * s * pi1 * (1 - pi1) * (1 - q - r)
    return Statistic(
        noise=noise,
        ticks=ticks,
        ones=round(ticks * mean),
        pairs=ticks - 1,
        changes=round((ticks - 1) * 2 * (mean * (1 - mean) - covariance)),
    )


@pytest.mark.parametrize(("q", "r"), [(0.1, 0.2), (0.3, 0.3), (0.05, 0.4), (0.6, 0.7)])
def test_moments_invert_the_expectation(q: float, r: float) -> None:
    """Fed with expected counts under two noise settings, the moments are the chain's own q and r."""
    rows = [expected(Noise(0.3, 0.25), q, r, 10**9), expected(Noise(0.4, 0.35), q, r, 3 * 10**9)]
    found = moments(rows)
    assert found is not None
    assert (found.q, found.r) == pytest.approx((q, r), abs=1e-5)


def test_moments_of_nothing_are_none() -> None:
    """Without ticks, or with a mean outside (0, 1), there is no estimate rather than a wrong one."""
    assert moments([]) is None
    assert moments([Statistic(Noise(0.3, 0.3), ticks=100, ones=5, pairs=99, changes=10)]) is None


@pytest.mark.parametrize("freedom", [2, 5, 7, 30, 499])
@pytest.mark.parametrize("probability", [0.9, 0.975, 0.9875, 0.995])
def test_student_quantile_is_student(probability: float, freedom: int) -> None:
    """The quantile agrees with scipy's to 1e-7."""
    assert student_quantile(probability, freedom) == pytest.approx(
        stats.t.ppf(probability, freedom), rel=1e-7
    )


@pytest.mark.parametrize("spread", [0.0, 0.05])
def test_region_covers_the_individual_device(spread: float) -> None:
    """Over simulated cohorts, homogeneous and mixed, the box holds a device's own chain at least 95% of the time.

    The bound is one-sided: the box may be wide, it must not be narrow. With half the claimed width it fails.
    """
    rng = np.random.default_rng(20)
    covered = narrow = 0
    runs = 2000
    for _ in range(runs):
        truth = np.column_stack([rng.normal(0.3, spread, 9), rng.normal(0.4, spread, 9)])
        estimates = truth + rng.normal(0, 0.03, truth.shape)
        box = region([Moments(q, r) for q, r in estimates[:8]])
        assert box is not None
        q, r = truth[8]
        covered += box.q_low <= q <= box.q_high and box.r_low <= r <= box.r_high
        middle_q, middle_r = (box.q_low + box.q_high) / 2, (box.r_low + box.r_high) / 2
        narrow += (
            abs(q - middle_q) <= (box.q_high - box.q_low) / 4
            and abs(r - middle_r) <= (box.r_high - box.r_low) / 4
        )
    assert covered / runs >= 0.95
    if spread:
        assert narrow / runs < 0.95


def test_region_needs_three_devices() -> None:
    """Two devices say nothing about the spread of a cohort."""
    assert region([Moments(0.3, 0.3), Moments(0.31, 0.3)]) is None
