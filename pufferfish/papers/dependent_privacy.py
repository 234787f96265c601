"""Dependent differential privacy for correlated records, such as several streams of one room (LCM).

Each record is published with Laplace noise. The leakage of record j about record i is measured by the dependence
coefficient ρ_ij: 0 for independent records, 1 for a copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmq.pufferfish.quilt.laplace_scale import LaplaceScale, require_epsilon
from hushmq.pufferfish.quilt.markov_chain import distribution


def baseline(dependent: int, sensitivity: float, epsilon: float) -> LaplaceScale:
    """L·Δ/ε for a query of sensitivity Δ when a record depends on at most L−1 others (LCM Theorem 7)."""
    require_epsilon(epsilon)
    if dependent < 1 or not sensitivity > 0:
        raise ValueError(
            f"dependent is {dependent} and sensitivity {sensitivity:g}; they must be at least 1 and positive"
        )
    return LaplaceScale("dependent-baseline", dependent * sensitivity / epsilon)


@dataclass(frozen=True, eq=False)
class Dependence:
    """The dependence of record j on record i: the values of j, and their distribution given each value of i."""

    values: NDArray[np.float64]
    given: NDArray[np.float64]

    def __init__(self, values: ArrayLike, given: ArrayLike) -> None:
        """ValueError unless `given[d]` is a distribution over the values, for each value d of record i."""
        levels = np.array(values, dtype=np.float64)
        if levels.ndim != 1 or len(levels) < 1 or not np.all(np.isfinite(levels)):
            raise ValueError("values must be a list of finite numbers, one for each value of the record")
        rows = np.array(
            [distribution(row, name=f"given row {i}", k=len(levels)) for i, row in enumerate(np.array(given))]
        )
        object.__setattr__(self, "values", levels)
        object.__setattr__(self, "given", rows)

    @property
    def width(self) -> float:
        """ΔD_j, the range of record j."""
        return float(np.ptp(self.values))

    def leak(self, sigma: float) -> float:
        """The largest log-likelihood ratio of record j, with Laplace noise σ, between two values of record i.

        Between neighbouring values of j both likelihoods are mixtures of e^(w/σ) and e^(−w/σ), so their ratio
        is monotone in the output w there: the maximum is at one of the values.
        """
        kernel = np.exp(-np.abs(self.values[:, None] - self.values[None, :]) / sigma)
        likelihoods = np.log(self.given @ kernel)
        return float((likelihoods.max(axis=0) - likelihoods.min(axis=0)).max())


def coefficient(dependence: Dependence, sigma: float) -> float:
    """ρ_ij in [0, 1]: the leakage of record j relative to that of a copy, ΔD_j/σ (LCM section VI.B)."""
    if not sigma > 0:
        raise ValueError(f"sigma is {sigma:g}; a Laplace scale is positive")
    return dependence.leak(sigma) * sigma / dependence.width if dependence.width > 0 else 0.0


def sensitivity(width: float, others: Sequence[Dependence], sigma: float) -> float:
    """The dependent sensitivity of record i, Σ_j ρ_ij·ΔD_j, with ρ_ii = 1 and ΔD_i = `width` (LCM section VI.B)."""
    return width + sum(coefficient(one, sigma) * one.width for one in others)


def scale(width: float, others: Sequence[Dependence], epsilon: float) -> LaplaceScale:
    """The least σ with sensitivity(σ)/σ ≤ ε, for publishing record i and the others with Laplace noise each.

    Valid only if the others are independent of each other given record i, because only then their leakages add. LCM do
    not state this condition: three bits of even parity have pairwise coefficients 0, and any two determine the third.
    More noise is a post-processing of less, so the loss falls in σ and bisection finds the least.
    """
    require_epsilon(epsilon)
    if not width > 0:
        raise ValueError(f"width is {width:g}; it must be positive, a constant record needs no noise")
    low = width / epsilon
    high = low + sum(one.width for one in others) / epsilon
    while math.nextafter(low, high) < high * (1 - 1e-13):
        middle = (low + high) / 2
        if sensitivity(width, others, middle) <= epsilon * middle:
            high = middle
        else:
            low = middle
    return LaplaceScale("dependent", high)
