"""What Θ implies of the shares of windows, against sums over all pairs of ticks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushmq.pufferfish.inference.share_prior import (
    binary_rates,
    categorical_rates,
    listed_prior,
    share_prior,
    window_moments,
)


@pytest.mark.parametrize("ticks", [1, 2, 7, 40])
@pytest.mark.parametrize(("q", "r"), [(0.2, 0.3), (0.01, 0.02), (0.9, 0.8), (0.5, 0.5), (1e-4, 0.3)])
def test_moments_are_sums_over_pairs_of_ticks(q: float, r: float, ticks: int) -> None:
    """Variance and correlation of neighbouring windows, from the covariance π(1−π)·λ^|s−t| of every pair."""
    at = np.arange(2 * ticks)
    share = q / (q + r)
    covariance = share * (1 - share) * (1 - q - r) ** np.abs(at[:, None] - at[None, :])
    variance = covariance[:ticks, :ticks].mean()
    next_one = covariance[:ticks, ticks:].mean()
    found, correlation = window_moments(q, r, ticks)
    assert found == pytest.approx(variance, rel=1e-9)
    assert correlation == pytest.approx(next_one / variance, rel=1e-9)


def test_a_chain_that_hardly_moves() -> None:
    """Its windows are all zeros or all ones, each as the one before."""
    variance, correlation = window_moments(1e-9, 1e-9, 60)
    assert variance == pytest.approx(0.25)
    assert correlation == 1.0


def test_ranges_hold_every_chain() -> None:
    """No chain of Θ has a mean, a deviation or a correlation outside of the ranges."""
    _, rates = binary_rates((0.05, 0.3), (0.1, 0.4))
    prior = share_prior(rates, ticks=30)
    for q in np.linspace(0.05, 0.3, 11):
        for r in np.linspace(0.1, 0.4, 11):
            variance, correlation = window_moments(q, r, 30)
            assert abs(q / (q + r) - prior.centre) <= math.sqrt(3) * prior.spread + 1e-12
            assert prior.deviation[0] ** 2 * 0.999 <= variance <= prior.deviation[1] ** 2 * 1.001
            assert prior.correlation[0] - 1e-3 <= correlation <= prior.correlation[1] + 1e-3


def test_listed_chains() -> None:
    """Mean and spread are those of the chains, each as likely, ranges those from the least to the largest."""
    prior = listed_prior([(0.2, 0.01, 0.5), (0.4, 0.04, 0.1), (0.6, 0.09, 0.3)])
    assert (prior.centre, prior.spread) == pytest.approx((0.4, math.sqrt(0.08 / 3)))
    assert prior.deviation == pytest.approx((0.1, 0.3))
    assert prior.correlation == (0.1, 0.5)


def test_the_mean_share_of_a_state_of_three() -> None:
    """Random chains between the matrices have stationary shares within the range."""
    low = [[0.5, 0.05, 0.1], [0.1, 0.6, 0.1], [0.0, 0.2, 0.4]]
    high = [[0.8, 0.3, 0.4], [0.3, 0.8, 0.3], [0.3, 0.5, 0.8]]
    priors = [share_prior(rates, ticks=20) for rates in categorical_rates(low, high)]
    rng = np.random.default_rng(3)
    tried = 0
    while tried < 200:
        matrix = rng.uniform(low, high)
        matrix /= matrix.sum(axis=1, keepdims=True)
        if (matrix < low).any() or (matrix > high).any():
            continue
        tried += 1
        stationary = np.linalg.matrix_power(matrix, 300)[0]
        for share, prior in zip(stationary, priors, strict=True):
            assert abs(share - prior.centre) <= math.sqrt(3) * prior.spread + 1e-9
