"""The posterior of a window's share from noisy shares of it and of earlier windows: a mixture of Kalman filters.

The share of window n is μ + a_n + b_n: a mean, a part with the correlation ρ from window to window, a part of its own.
It is seen through noise of known variance. Given the variances of a and b, and ρ, all is normal, and a Kalman filter of
(μ, a) gives the posterior. These three are not known: there is a filter for every shape of a fixed grid, and each
weighs as much as it explains what was seen, times its prior. So what is not known of them widens the interval, too.

μ is normal with the mean and the variance of a uniform law over the shares that Θ allows. What Θ implies of the rest is
a prior that evidence overrules (`log_weights`), since real streams are no chains of first order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.inference.share_prior import SharePrior

Floats = NDArray[np.float64]

DEVIATIONS = tuple(0.5 / 2**step for step in range(10))
"""Standard deviations of a window's share; no share of anything has a larger one."""
CORRELATIONS = (0.0, 0.5, 0.8, 0.95, 0.99)
OWN_PARTS = (0.0, 0.5)
"""The share of the variance that a window has of its own, where neighbours are correlated."""
STEP_WEIGHT = 0.25
TRUSTING, CAUTIOUS = 0.2, 0.5
"""Weights of a doubling beyond Θ: for the share itself, and for its interval, which has to hold where Θ is not true."""
TINY = 1e-12
NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Shape:
    """One law of the shares around their mean: the variances of a and of b, and ρ."""

    slow: float
    own: float
    correlation: float


@dataclass(frozen=True, slots=True)
class Posterior:
    """The share of every row, and the ends of an interval that holds it with 95% probability."""

    share: Floats
    low: Floats
    high: Floats


def _grid() -> tuple[Shape, ...]:
    slow = [(rho, own) for rho, own in product(CORRELATIONS[1:], OWN_PARTS)]
    return tuple(
        Shape(sd**2 * (1 - own), sd**2 * own, rho)
        for sd, (rho, own) in product(DEVIATIONS, [(0.0, 1.0), *slow])
    )


SHAPES = _grid()
_SLOW = np.array([shape.slow for shape in SHAPES])
_OWN = np.array([shape.own for shape in SHAPES])
_RHO = np.array([shape.correlation for shape in SHAPES])


def mean_law(prior: SharePrior) -> tuple[float, float]:
    """Mean and variance of μ."""
    low, high = prior.mean
    return (low + high) / 2, (high - low) ** 2 / 12


@lru_cache(maxsize=4096)
def log_weights(prior: SharePrior, beyond: float) -> Floats:
    """The logarithm of the prior weight of every shape, up to a constant.

    Standard deviations within what Θ implies have the same density. A shape with a larger one has the weight `beyond`
    for every doubling, and STEP_WEIGHT for every step of the grid that it is off otherwise.
    """
    low, high = (math.log2(max(deviation, TINY)) for deviation in prior.deviation)
    near, far = (_place(correlation) for correlation in prior.correlation)

    def weight(shape: Shape) -> float:
        size, place = math.log2(shape.slow + shape.own) / 2, _place(shape.correlation)
        steps = max(low - size, 0.0) + max(near - place, place - far, 0.0)
        return size * math.log(2) + max(size - high, 0.0) * math.log(beyond) + steps * math.log(STEP_WEIGHT)

    return np.array([weight(shape) for shape in SHAPES])


def _place(correlation: float) -> float:
    """Where on the grid a correlation stands."""
    return float(np.interp(correlation, CORRELATIONS, range(len(CORRELATIONS))))


def filtered(shares: Floats, variances: Floats, priors: Sequence[SharePrior]) -> Posterior:
    """The posterior of the share in the last column, from all columns.

    A row is one state of one scope, a column one window; a variance is infinite where a window has no release.
    """
    *_, last = _steps(shares, variances, priors)
    return _mixed(*last, priors)


def filtered_history(shares: Floats, variances: Floats, priors: Sequence[SharePrior]) -> list[Posterior]:
    """For every column the posterior of its share, from that column and those before it."""
    return [_mixed(*step, priors) for step in _steps(shares, variances, priors)]


def _steps(
    shares: Floats, variances: Floats, priors: Sequence[SharePrior]
) -> Iterator[tuple[Floats, Floats, Floats]]:
    """After every column, for every row and shape: the log evidence; mean and variance of the share."""
    laws = np.array([mean_law(prior) for prior in priors])
    m = np.repeat(laws[:, :1], len(SHAPES), axis=1)
    a = np.zeros_like(m)
    mm = np.repeat(laws[:, 1:], len(SHAPES), axis=1)
    ma = np.zeros_like(m)
    aa = np.broadcast_to(_SLOW, m.shape)
    evidence = np.zeros_like(m)
    seen = np.isfinite(variances)
    noises, values = np.where(seen, variances, 0.0), np.where(seen, shares, 0.0)
    for column in range(shares.shape[1]):
        if column:
            a, ma, aa = _RHO * a, _RHO * ma, _RHO**2 * aa + (1 - _RHO**2) * _SLOW
        here, noise, value = (each[:, column, None] for each in (seen, noises, values))
        with_m, with_a = mm + ma, ma + aa
        spread = with_m + with_a + _OWN
        whole = spread + noise
        off = here * (value - m - a)
        evidence = evidence - here * (np.log(whole) + off**2 / whole) / 2
        yield evidence, m + a + spread / whole * off, np.where(here, spread * noise / whole, spread)
        gain_m, gain_a = here * with_m / whole, here * with_a / whole
        m, a = m + gain_m * off, a + gain_a * off
        mm, ma, aa = mm - gain_m * with_m, ma - gain_m * with_a, aa - gain_a * with_a


def _mixed(evidence: Floats, share: Floats, spread: Floats, priors: Sequence[SharePrior]) -> Posterior:
    """Mixtures over shapes, weighted by evidence and prior: one that trusts Θ, and a wider one for the interval."""
    point, _ = _moments(_weights(evidence, priors, TRUSTING), share, spread)
    mean, deviation = _moments(_weights(evidence, priors, CAUTIOUS), share, spread)
    point = np.clip(point, 0.0, 1.0)
    low, high = (np.clip(mean + side * NORMAL_95 * deviation, 0.0, 1.0) for side in (-1, 1))
    return Posterior(point, np.minimum(low, point), np.maximum(high, point))


def _weights(evidence: Floats, priors: Sequence[SharePrior], beyond: float) -> Floats:
    logs = evidence + np.array([log_weights(prior, beyond) for prior in priors])
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _moments(weights: Floats, share: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the mixture."""
    mean = (weights * share).sum(axis=1)
    variance = (weights * (spread + (share - mean[:, None]) ** 2)).sum(axis=1)
    return mean, np.sqrt(variance)
