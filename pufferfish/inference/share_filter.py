"""The posterior of a window's share from noisy shares of it and of earlier windows: a mixture of Kalman filters.

The share of window n is μ + f_n·(a_n + b_n): a mean, a part with the correlation ρ from window to window, and a part
of its own. It is seen through noise of known variance. a and b vary as those of one device do; the mean of N_n
devices with the correlation c between each other varies less, f_n² = c + (1−c)/N_n. So a cohort that shrinks is
expected to vary more. Given the variances of a and b, ρ and c, all is normal, and a Kalman filter of (μ, a) gives the
posterior. These four are not known: there is a filter for every shape of a fixed grid, and each weighs as much as it
explains what was seen, times its prior. So what is not known of them widens the interval, too.

μ is normal with the mean and the variance that Θ gives. What Θ implies of the rest is a prior that evidence overrules
(`log_weights`), since real streams are no chains of first order. The share itself and its interval have priors of their
own. Moving with noise costs more than staying at μ could, so the share's prior prefers small deviations; the interval
has to hold where shares vary more than Θ says, so its prior prefers large ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
TOGETHER = {0.0: 0.5, 0.1: 0.25, 1.0: 0.25}
"""Correlations of the devices of a cohort with each other, and the prior weight of each."""
STEP_WEIGHT = 0.25
TINY = 1e-12
NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class DeviationPrior:
    """The prior weight of a standard deviation of the grid is a power of it; a doubling beyond Θ weighs `beyond`."""

    power: float
    beyond: float


FOR_SHARE, FOR_INTERVAL = DeviationPrior(-0.5, 0.2), DeviationPrior(1.0, 0.5)


@dataclass(frozen=True, slots=True)
class Shape:
    """One law of the shares around their mean: the variances of a and of b, ρ, and c."""

    slow: float
    own: float
    correlation: float
    together: float = 1.0


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
"""Of a single device."""
COHORT_SHAPES = tuple(replace(shape, together=c) for c in TOGETHER for shape in SHAPES)


@lru_cache(maxsize=4096)
def log_weights(prior: SharePrior, deviations: DeviationPrior, *, cohort: bool = False) -> Floats:
    """The logarithm of the prior weight of every shape, up to a constant.

    A step of the grid that a shape is off what Θ implies has STEP_WEIGHT: in the correlation, and in a deviation that
    is smaller than any of Θ.
    """
    low, high = (math.log2(max(deviation, TINY)) for deviation in prior.deviation)
    near, far = (_place(correlation) for correlation in prior.correlation)

    def weight(shape: Shape) -> float:
        size, place = math.log2(shape.slow + shape.own) / 2, _place(shape.correlation)
        steps = max(low - size, 0.0) + max(near - place, place - far, 0.0)
        beyond = max(size - high, 0.0) * math.log(deviations.beyond)
        return deviations.power * size * math.log(2) + beyond + steps * math.log(STEP_WEIGHT)

    one = np.array([weight(shape) for shape in SHAPES])
    return np.concatenate([one + math.log(share) for share in TOGETHER.values()]) if cohort else one


def _place(correlation: float) -> float:
    """Where on the grid a correlation stands."""
    return float(np.interp(correlation, CORRELATIONS, range(len(CORRELATIONS))))


def filtered(
    shares: Floats, variances: Floats, priors: Sequence[SharePrior], devices: Floats | None = None
) -> Posterior:
    """The posterior of the share in the last column, from all columns.

    A row is one state of one scope, a column one window; a variance is infinite where a window has no release. Shares
    are of one device each, or of so many `devices`.
    """
    *_, last = _steps(shares, variances, priors, devices)
    return _mixed(*last, priors)


def filtered_history(
    shares: Floats, variances: Floats, priors: Sequence[SharePrior], devices: Floats | None = None
) -> list[Posterior]:
    """For every column the posterior of its share, from that column and those before it."""
    return [_mixed(*step, priors) for step in _steps(shares, variances, priors, devices)]


def _steps(
    shares: Floats, variances: Floats, priors: Sequence[SharePrior], devices: Floats | None
) -> Iterator[tuple[Floats, Floats, Floats]]:
    """After every column, for every row and shape: the log evidence; mean and variance of the share."""
    alone = devices is None or float(np.max(devices)) <= 1.0
    shapes = SHAPES if alone else COHORT_SHAPES
    slow, own, rho, together = (
        np.array([getattr(shape, name) for shape in shapes])
        for name in ("slow", "own", "correlation", "together")
    )
    m = np.repeat([[prior.centre] for prior in priors], len(shapes), axis=1)
    a = np.zeros_like(m)
    mm = np.repeat([[prior.spread**2] for prior in priors], len(shapes), axis=1)
    ma = np.zeros_like(m)
    aa = np.broadcast_to(slow, m.shape)
    evidence = np.zeros_like(m)
    seen = np.isfinite(variances)
    noises, values = np.where(seen, variances, 0.0), np.where(seen, shares, 0.0)
    many = np.ones_like(shares) if devices is None else np.maximum(1.0, devices)
    for column in range(shares.shape[1]):
        if column:
            a, ma, aa = rho * a, rho * ma, rho**2 * aa + (1 - rho**2) * slow
        here, noise, value = (each[:, column, None] for each in (seen, noises, values))
        factor = np.sqrt(together + (1 - together) / many[:, column, None])
        with_m, with_a = mm + factor * ma, ma + factor * aa
        spread = with_m + factor * with_a + factor**2 * own
        whole = spread + noise
        off = here * (value - m - factor * a)
        evidence = evidence - here * (np.log(whole) + off**2 / whole) / 2
        yield evidence, m + factor * a + spread / whole * off, np.where(here, spread * noise / whole, spread)
        gain_m, gain_a = here * with_m / whole, here * with_a / whole
        m, a = m + gain_m * off, a + gain_a * off
        mm, ma, aa = mm - gain_m * with_m, ma - gain_m * with_a, aa - gain_a * with_a


def _mixed(evidence: Floats, share: Floats, spread: Floats, priors: Sequence[SharePrior]) -> Posterior:
    """Mixtures over shapes, weighted by evidence and prior: one for the share, and a wider one for the interval."""
    point, _ = _moments(_weights(evidence, priors, FOR_SHARE), share, spread)
    mean, deviation = _moments(_weights(evidence, priors, FOR_INTERVAL), share, spread)
    point = np.clip(point, 0.0, 1.0)
    low, high = (np.clip(mean + side * NORMAL_95 * deviation, 0.0, 1.0) for side in (-1, 1))
    return Posterior(point, np.minimum(low, point), np.maximum(high, point))


def _weights(evidence: Floats, priors: Sequence[SharePrior], deviations: DeviationPrior) -> Floats:
    cohort = evidence.shape[1] > len(SHAPES)
    logs = evidence + np.array([log_weights(prior, deviations, cohort=cohort) for prior in priors])
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _moments(weights: Floats, share: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the mixture."""
    mean = (weights * share).sum(axis=1)
    variance = (weights * (spread + (share - mean[:, None]) ** 2)).sum(axis=1)
    return mean, np.sqrt(variance)
