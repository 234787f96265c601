"""The spread T of one coordinate between the devices of a cohort: the upper ends of its likelihood-ratio intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hushmq.calibrator.models.binary.binary_moments import Floats
from hushmq.calibrator.models.quantiles import chi_square_quantile

SPREAD_CONFIDENCE = 0.99
"""One-sided, for the spread T in a device's region."""
NEWCOMER_CONFIDENCE = 0.85
"""One-sided, for the spread T in the region of a device without evidence."""
NEGLIGIBLE = 0.01
"""A T this small beside the variances of the devices' estimates is negligible."""
VAGUE = 0.02
"""The variance of μ beyond which it is read off the likelihood."""
LOWEST, HIGHEST = np.array([-5.0, -7.5]), np.array([5.0, 2.0])
"""Where a and b may lie: π1 within 0.7% … 99.3%, λ within −0.76 … 0.9989."""
DEVIATIONS = np.geomspace(2.0, 0.004, 10)
"""Standard deviations between devices that are tried first, in logits."""

_Evaluate = Callable[[float, float], tuple[Floats, Floats, Floats]]


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Of one coordinate: (μ, T) → each device's log marginal likelihood, posterior mean and posterior variance.

    `variances` are those of the devices' estimates.
    """

    evaluate: _Evaluate
    variances: Floats

    def __call__(self, mu: float, T: float) -> tuple[Floats, Floats, Floats]:
        return self.evaluate(mu, T)


def centred(mu: float, T: float, means: Floats, variances: Floats) -> float:
    """One Newton step of μ: the score is Σ(E x_i − μ)/T, its slope −Σ(1/T − Var x_i/T²)."""
    slope = float((1 / T - variances / T**2).sum())
    step = float((means - mu).sum()) / T / max(slope, 1e-9)
    return mu + min(1.0, max(-1.0, step))


@dataclass(frozen=True, slots=True)
class Profile:
    """The restricted log likelihood of T: at the best μ, less ½·log of the information on μ."""

    T: float
    mu: float
    variance: float
    """Of μ: 1/Σ 1/(V + T)."""
    height: float
    top: float
    """The height of the maximum, which devices more alike than chance has them put at a negative T."""
    slope: float
    """Of the height by T."""

    @classmethod
    def at(cls, likelihood: Likelihood, deviation: float, mu: float) -> Profile:
        T = deviation**2
        _, means, variances = likelihood(mu, T)
        mu = centred(mu, T, means, variances)
        value, means, variances = likelihood(mu, T)
        known = 1 / (likelihood.variances + T)
        total, square = float(known.sum()), float((known**2).sum())
        # A device's score of T is ½·(E(x−μ)²/T² − 1/T); its information ½/(V+T)², or what the scores themselves show.
        scores = 0.5 * ((means - mu) ** 2 / T**2 + variances / T**2 - 1 / T)
        slope = float(scores.sum()) + 0.5 * square / total
        information = max(0.5 * square, float((scores**2).sum()))
        height = float(value.sum()) - 0.5 * math.log(total)
        at_the_end = T * total < NEGLIGIBLE * len(means)
        beyond = slope**2 / (2 * information) if slope < 0 and at_the_end else 0.0
        return cls(T, mu, 1 / total, height, height + beyond, slope)


@dataclass(frozen=True, slots=True)
class End:
    """The upper end of an interval of T, with the μ that is likeliest there and the variance of that μ."""

    mu: float
    T: float
    variance: float


def upper_ends(likelihood: Likelihood, mu: float, m: int) -> tuple[End, End]:
    """The upper ends of T's confidence intervals: the one for devices' regions, and the one for a newcomer's."""
    tried: list[Profile] = []
    for deviation in DEVIATIONS:  # from wide to narrow
        tried.append(Profile.at(likelihood, float(deviation), tried[-1].mu if tried else mu))
    best = max(range(len(tried)), key=lambda index: tried[index].height)
    low, high = float(DEVIATIONS[min(best + 1, len(DEVIATIONS) - 1)]), float(DEVIATIONS[max(best - 1, 0)])
    peak = tried[best]
    for _ in range(5):  # the slope says on which side of the middle the top is
        middle = Profile.at(likelihood, math.sqrt(low * high), peak.mu)
        peak = max(peak, middle, key=lambda one: one.height)
        low, high = (math.sqrt(low * high), high) if middle.slope > 0 else (low, math.sqrt(low * high))
    return (
        _end(likelihood, tried, peak, m, SPREAD_CONFIDENCE),
        _end(likelihood, tried, peak, m, NEWCOMER_CONFIDENCE),
    )


def _end(likelihood: Likelihood, tried: list[Profile], peak: Profile, m: int, confidence: float) -> End:
    """The largest T within its likelihood-ratio interval.

    The threshold is the one at which m equal normal devices give the exact one-sided interval of a variance: with
    k = m−1 and u = k/χ², 2·log L falls by k·(log u − 1 + 1/u) from its top.
    """
    k = m - 1
    u = k / chi_square_quantile(1 - confidence, k)
    threshold = peak.top - k * (math.log(u) - 1 + 1 / u) / 2
    inside = max(
        (one for one in [*tried, peak] if one.height >= threshold), key=lambda one: one.T, default=tried[-1]
    )
    outside = min((one.T for one in tried if one.T > inside.T), default=inside.T)
    for _ in range(4):
        middle = Profile.at(likelihood, (inside.T * outside) ** 0.25, inside.mu)
        if middle.height >= threshold:
            inside = middle
        else:
            outside = middle.T
    return End(inside.mu, outside, _reach(likelihood, inside.mu, outside, inside.variance))


def _reach(likelihood: Likelihood, mu: float, T: float, variance: float) -> float:
    """The variance of μ, or where that is large the one whose interval holds all μ that the likelihood allows."""
    if variance < VAGUE:
        return variance
    grid = np.linspace(LOWEST[1], HIGHEST[1], 39)
    heights = np.array([float(likelihood(float(other), T)[0].sum()) for other in grid])
    top = max(float(heights.max()), float(likelihood(mu, T)[0].sum()))
    within = grid[heights >= top - 1.92]  # half of χ²'s 95% point, 3.84
    far = max((abs(float(other) - mu) for other in within), default=0.0)
    return max(variance, (far / 1.96) ** 2)
