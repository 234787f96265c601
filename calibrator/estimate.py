"""Θ from charged statistics: moments per device, and a region that covers each device's own chain.

With s = 1−ρ0−ρ1 and λ = 1−q−r, a sanitized state has mean ρ0 + s·π1 and lag-1 autocovariance s²·π0·π1·λ
(docs/theory.md, estimation). Both are linear in what is counted, so noise versions are pooled by weighted least
squares. A cohort is not one chain: the region is a prediction interval for one more device, so that the spread
between devices is covered along with the sampling error and the noise on the statistics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pufferfish.binary import Box, Noise

FEWEST_DEVICES = 3


@dataclass(frozen=True, slots=True)
class Statistic:
    """Charged statistics of one device under one noise setting, summed over windows."""

    noise: Noise
    ticks: int
    ones: int
    pairs: int
    changes: int


@dataclass(frozen=True, slots=True)
class Moments:
    """Estimates of one device's chain. They may lie outside (0, 1): they carry noise."""

    q: float
    r: float


def moments(statistics: Iterable[Statistic]) -> Moments | None:
    """Least-squares estimates over noise settings, or None where the statistics do not determine them."""
    statistics = [one for one in statistics if one.ticks > 0 and one.pairs > 0]
    spread = [1 - one.noise.rho0 - one.noise.rho1 for one in statistics]
    weight = sum(s * s * one.ticks for s, one in zip(spread, statistics, strict=True))
    if weight <= 0:
        return None
    # π1 minimises Σ (ones − ticks·(ρ0 + s·π1))² / ticks
    ones = sum(s * (one.ones - one.ticks * one.noise.rho0) for s, one in zip(spread, statistics, strict=True))
    pi1 = ones / weight
    variance = pi1 * (1 - pi1)
    if variance <= 0:
        return None
    # changes/pairs has mean 2(μ(1−μ) − s²·π0·π1·λ); λ minimises the squared error with weights pairs
    top = bottom = 0.0
    for s, one in zip(spread, statistics, strict=True):
        mean = one.noise.rho0 + s * pi1
        covariance = mean * (1 - mean) - one.changes / (2 * one.pairs)
        top += one.pairs * s * s * covariance
        bottom += one.pairs * s**4 * variance
    step = 1 - top / bottom
    return Moments(q=step * pi1, r=step * (1 - pi1))


def region(devices: Sequence[Moments], *, confidence: float = 0.95) -> Box | None:
    """A box that holds the (q, r) of a device of this cohort with the given confidence.

    Prediction interval mean ± t·sd·√(1+1/m) per parameter, the error shared between the two (Bonferroni). The
    standard deviation is that of noisy estimates, so the box errs on the wide side. None with too few devices,
    or where an interval lies outside (0, 1) altogether.
    """
    m = len(devices)
    if m < FEWEST_DEVICES:
        return None
    estimates = np.array([(one.q, one.r) for one in devices])
    quantile = student_quantile(1 - (1 - confidence) / 4, m - 1)
    half = quantile * estimates.std(axis=0, ddof=1) * math.sqrt(1 + 1 / m)
    low = np.clip(estimates.mean(axis=0) - half, TINY, 1 - TINY)
    high = np.clip(estimates.mean(axis=0) + half, TINY, 1 - TINY)
    if (low >= high).any():
        return None
    return Box(float(low[0]), float(high[0]), float(low[1]), float(high[1]))


TINY = 1e-6


@lru_cache(maxsize=1024)
def student_quantile(probability: float, freedom: int) -> float:
    """The quantile of Student's t: bisection on Simpson's rule over the density, rounded up (towards wider)."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)

    def below(t: float) -> float:
        grid = np.linspace(0.0, t, 2001)
        density = scale * (1 + grid**2 / freedom) ** (-(freedom + 1) / 2)
        weights = np.full(2001, 2.0)
        weights[1::2] = 4.0
        weights[[0, -1]] = 1.0
        return 0.5 + float(weights @ density) * t / 6000

    low, high = 0.0, 1.0
    while below(high) < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < probability else (low, middle)
    return high
