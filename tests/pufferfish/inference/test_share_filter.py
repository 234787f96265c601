"""Smoothed shares: equal to a dense normal posterior, useful on simulated chains, with intervals that hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from hushmq.pufferfish.inference.share_filter import (
    COHORT_SHAPES,
    FOR_INTERVAL,
    FOR_SHARE,
    NORMAL_95,
    SHAPES,
    DeviationPrior,
    Posterior,
    filtered,
    filtered_history,
    log_weights,
)
from hushmq.pufferfish.inference.share_prior import SharePrior, StateRates, share_prior

Floats = NDArray[np.float64]
WIDE = share_prior(StateRates(0.02, 0.6, 0.02, 0.6), ticks=60)


def dense(
    seen: Floats, variances: Floats, prior: SharePrior, devices: Floats | None = None
) -> tuple[float, float, float]:
    """Share and interval in the last window, from the whole covariance matrix of each shape."""
    centre, spread = prior.centre, prior.spread**2
    there = np.isfinite(variances)
    at = np.arange(len(seen))
    means, left, evidence = [], [], []
    for shape in SHAPES if devices is None else COHORT_SHAPES:
        around = shape.slow * shape.correlation ** np.abs(at[:, None] - at[None, :])
        around = around + shape.own * np.eye(len(at))
        if devices is not None:
            smaller = np.sqrt(shape.together + (1 - shape.together) / devices)
            around = around * smaller[:, None] * smaller[None, :]
        shares = spread + around
        whole = shares[np.ix_(there, there)] + np.diag(variances[there])
        across = shares[-1, there]
        off = seen[there] - centre
        means.append(centre + across @ np.linalg.solve(whole, off))
        left.append(shares[-1, -1] - across @ np.linalg.solve(whole, across))
        evidence.append(-(np.linalg.slogdet(whole)[1] + off @ np.linalg.solve(whole, off)) / 2)

    def mixed(deviations: DeviationPrior) -> tuple[float, float]:
        logs = np.array(evidence) + log_weights(prior, deviations, cohort=devices is not None)
        weights = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
        mean = weights @ means
        return float(mean), math.sqrt(weights @ (np.array(left) + (np.array(means) - mean) ** 2))

    share = min(1.0, max(0.0, mixed(FOR_SHARE)[0]))
    mean, deviation = mixed(FOR_INTERVAL)
    low, high = (min(1.0, max(0.0, mean + side * NORMAL_95 * deviation)) for side in (-1, 1))
    return share, min(low, share), max(high, share)


@pytest.mark.parametrize("missing", [(), (0,), (2, 3), (5,)])
def test_the_filter_is_the_dense_posterior(missing: tuple[int, ...]) -> None:
    """With noise that changes and windows that are missing, the last one included."""
    rng = np.random.default_rng(len(missing))
    seen = 0.4 + 0.2 * rng.standard_normal((3, 6))
    variances = rng.uniform(0.01, 0.4, (3, 6)) ** 2
    variances[:, list(missing)] = np.inf
    priors = [WIDE, share_prior(StateRates(0.2, 0.2, 0.3, 0.3), ticks=60), WIDE]
    found = filtered(seen, variances, priors)
    for row, prior in enumerate(priors):
        wanted = dense(seen[row], variances[row], prior)
        assert (found.share[row], found.low[row], found.high[row]) == pytest.approx(wanted, abs=1e-9)


def test_a_cohort_whose_devices_come_and_go_is_the_dense_posterior() -> None:
    """The fewer devices a window has, the more its share varies, as far as devices are independent."""
    rng = np.random.default_rng(9)
    seen, variances = 0.4 + 0.2 * rng.standard_normal((2, 5)), rng.uniform(0.01, 0.2, (2, 5)) ** 2
    devices = np.array([[30.0, 30, 12, 3, 1], [5.0, 5, 5, 5, 5]])
    found = filtered(seen, variances, [WIDE, WIDE], devices)
    for row in range(2):
        wanted = dense(seen[row], variances[row], WIDE, devices[row])
        assert (found.share[row], found.low[row], found.high[row]) == pytest.approx(wanted, abs=1e-9)


def test_a_cohort_that_shrinks() -> None:
    """Of devices that are independent, from 30 to 1: no worse than the raw share or than their mean, and 95% hold.

    Whoever takes every window to vary like those before misses most of the last ones.
    """
    rng = np.random.default_rng(12)
    streams = chains(0.02, 0.03, seed=8).reshape(-1, 10)  # 400 devices, ten windows
    counts = np.array([30, 30, 24, 18, 12, 8, 5, 3, 2, 1])
    truth = np.stack(
        [
            [
                streams[rng.choice(400, size=n, replace=False), column].mean()
                for column, n in enumerate(counts)
            ]
            for _ in range(200)
        ]
    )
    seen = truth + 0.1 * rng.standard_normal(truth.shape)
    variances, priors = (
        np.full(truth.shape, 0.01),
        [share_prior(StateRates(0.01, 0.2, 0.01, 0.2), ticks=60)] * 200,
    )
    devices = np.tile(counts.astype(float), (200, 1))
    known, unknown = (filtered_history(seen, variances, priors, given) for given in (devices, None))

    def held(found: list[Posterior]) -> float:
        last = found[-2:]
        return float(
            np.mean([(one.low <= t) & (t <= one.high) for one, t in zip(last, truth[:, -2:].T, strict=True)])
        )

    smoothed = np.stack([one.share for one in known], axis=1)
    assert np.mean((smoothed - truth) ** 2) <= np.mean((seen - truth) ** 2)
    assert np.mean((smoothed - truth) ** 2) <= np.mean((truth.mean() - truth) ** 2)
    assert held(known) >= 0.92
    assert held(unknown) < held(known)


def test_every_column_is_filtered_from_those_up_to_it() -> None:
    """A later release changes nothing about an earlier one."""
    rng = np.random.default_rng(5)
    seen, variances = rng.uniform(0, 1, (2, 8)), np.full((2, 8), 0.04)
    history = filtered_history(seen, variances, [WIDE, WIDE])
    for column, posterior in enumerate(history, start=1):
        alone = filtered(seen[:, :column], variances[:, :column], [WIDE, WIDE])
        assert alone.share == pytest.approx(posterior.share, abs=1e-12)


def test_without_noise_it_is_the_release() -> None:
    """What is exact stays as it is."""
    seen = np.array([[0.2, 0.9, 0.4]])
    found = filtered(seen, np.zeros((1, 3)), [WIDE])
    assert found.share[0] == pytest.approx(0.4, abs=1e-9)
    assert found.high[0] - found.low[0] < 1e-6


def test_with_noise_beyond_measure_it_is_what_theta_says() -> None:
    """A release that says nothing moves nothing."""
    found = filtered(np.array([[700.0]]), np.array([[1e8]]), [WIDE])
    assert found.share[0] == pytest.approx(0.5, abs=1e-3)
    assert (found.low[0], found.high[0]) == pytest.approx((0.0, 1.0), abs=0.01)


def chains(
    q: float, r: float, *, other: tuple[float, float] | None = None, change: float = 0.0, seed: int
) -> Floats:
    """The true shares of 40 windows of 60 ticks in each of 100 streams; with `other`, a hidden regime changes."""
    rng = np.random.default_rng(seed)
    q1, r1 = other or (q, r)
    regime, state = rng.random(100) < 0.5, rng.random(100) < q / (q + r)
    shares = np.zeros((100, 40))
    for window in range(40):
        for _ in range(60):
            regime ^= rng.random(100) < change
            leaves = np.where(state, np.where(regime, r1, r), np.where(regime, q1, q))
            state ^= rng.random(100) < leaves
            shares[:, window] += state
    return shares / 60


STREAMS = {
    "fast, the chain known": (chains(0.2, 0.3, seed=1), StateRates(0.2, 0.2, 0.3, 0.3)),
    "fast, Θ wide": (chains(0.2, 0.3, seed=2), StateRates(0.02, 0.6, 0.02, 0.6)),
    "slow, Θ wide": (chains(0.004, 0.006, seed=3), StateRates(0.002, 0.2, 0.002, 0.2)),
    "two regimes, Θ of first order": (
        chains(0.4, 0.1, other=(0.1, 0.4), change=1 / 600, seed=4),
        StateRates(0.1, 0.4, 0.1, 0.4),
    ),
}


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("name", STREAMS)
def test_on_simulated_streams(name: str, noise: float) -> None:
    """No worse than the raw shares; than the average of the releases so far; and the interval holds 95%.

    Where noise hides the shares the interval is wider than it need be, since all that is known is that Θ is wide.
    """
    truth, rates = STREAMS[name]
    rng = np.random.default_rng(7)
    seen = truth + noise * rng.standard_normal(truth.shape)
    prior = share_prior(rates, ticks=60)
    found = filtered_history(seen, np.full(truth.shape, noise**2), [prior] * len(truth))
    smoothed, low, high = (
        np.stack([getattr(one, side) for one in found], axis=1) for side in ("share", "low", "high")
    )
    so_far = np.cumsum(seen, axis=1) / np.arange(1, truth.shape[1] + 1)

    def error(estimate: Floats) -> float:
        return float(np.mean((estimate - truth) ** 2))

    assert error(smoothed) <= 1.01 * error(seen)
    assert error(smoothed) <= 1.01 * error(so_far)
    held = float(np.mean((low <= truth) & (truth <= high)))
    # 4,000 windows, of which neighbours are not independent: three standard errors of a few hundred.
    assert held >= 0.92
    if noise <= 0.1:
        assert held <= 0.98
    first = float(np.mean((low[:, 0] <= truth[:, 0]) & (truth[:, 0] <= high[:, 0])))
    assert first >= 0.87  # of 100 streams: 0.95 less 3.7 standard errors


def test_beside_a_long_run_average_that_is_known() -> None:
    """Far better where noise is small. Where it hides the shares, at most a tenth worse in mean square.

    That is the price of not trusting Θ blindly: shares may vary more than its chains do, and noise looks alike.
    """
    truth, rates = STREAMS["fast, the chain known"]
    prior = share_prior(rates, ticks=60)
    rng = np.random.default_rng(8)
    for noise, most in ((0.03, 0.1), (0.1, 0.6), (0.3, 1.1), (1.0, 1.1), (5.0, 1.02)):
        seen = truth + noise * rng.standard_normal(truth.shape)
        found = filtered_history(seen, np.full(truth.shape, noise**2), [prior] * len(truth))
        smoothed = np.stack([one.share for one in found], axis=1)
        assert np.mean((smoothed - truth) ** 2) <= most * np.mean((0.4 - truth) ** 2), noise
