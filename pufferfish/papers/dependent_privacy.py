"""Dependent differential privacy: records of several people, or streams of one room, that move together (LCM).

Each record is published with Laplace noise. Record j leaks about record i what its dependence lets through: the
coefficient ρ_ij is 0 for independent records and 1 for a copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmq.pufferfish.quilt.laplace_scale import Scale, require_epsilon
from hushmq.pufferfish.quilt.markov_chain import distribution


def baseline(dependent: int, sensitivity: float, epsilon: float) -> Scale:
    """L·Δ/ε for a query of sensitivity Δ when a record depends on at most L−1 others (LCM Theorem 7)."""
    require_epsilon(epsilon)
    if dependent < 1 or not sensitivity > 0:
        raise ValueError(
            f"dependent is {dependent} and sensitivity {sensitivity:g}; they must be at least 1 and positive"
        )
    return Scale("dependent-baseline", dependent * sensitivity / epsilon)


@dataclass(frozen=True, eq=False)
class Dependence:
    """How record j depends on record i: its values, and their distribution for each value of i."""

    values: NDArray[np.float64]
    given: NDArray[np.float64]

    def __init__(self, values: ArrayLike, given: ArrayLike) -> None:
        """Check that `given[d]` is a distribution over the values, for each value d of record i."""
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
        """ΔD_j, the most that record j can change."""
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
    """ρ_ij: the leak through record j as a share of what a copy would leak, ΔD_j/σ (LCM section VI.B).

    It depends on the noise σ, and lies between 0 and 1.
    """
    if not sigma > 0:
        raise ValueError(f"sigma is {sigma:g}; a Laplace scale is positive")
    return dependence.leak(sigma) * sigma / dependence.width if dependence.width > 0 else 0.0


def sensitivity(width: float, others: Sequence[Dependence], sigma: float) -> float:
    """The dependent sensitivity of record i, Σ_j ρ_ij·ΔD_j, with ρ_ii = 1 and ΔD_i = `width` (LCM section VI.B)."""
    return width + sum(coefficient(one, sigma) * one.width for one in others)


def scale(width: float, others: Sequence[Dependence], epsilon: float) -> Scale:
    """The least σ with sensitivity(σ)/σ ≤ ε, for publishing record i and the others with Laplace noise each.

    Sound only where the others are independent of each other given record i, for only then do their leaks add up.
    The text of LCM does not say so: three bits of even parity have coefficients 0 in pairs, and any two give the third
    away. More noise is a post-processing of less, so the loss falls in σ and bisection finds the least.
    """
    require_epsilon(epsilon)
    if not width > 0:
        raise ValueError(f"width is {width:g}; a record that cannot change needs no noise")
    low = width / epsilon
    high = low + sum(one.width for one in others) / epsilon
    while math.nextafter(low, high) < high * (1 - 1e-13):
        middle = (low + high) / 2
        if sensitivity(width, others, middle) <= epsilon * middle:
            high = middle
        else:
            low = middle
    return Scale("dependent", high)
