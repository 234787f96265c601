"""Baseline mechanisms for correlated records: entry-DP, group-DP, and the influence matrix of Ghosh and Kleinberg.

All are for a 1-Lipschitz query of a stream whose state at each instant is a secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hushmq.pufferfish.quilt.laplace_scale import LaplaceScale, require_epsilon, require_length
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix
from hushmq.pufferfish.quilt.max_influence import log_ratios


def entry(epsilon: float) -> LaplaceScale:
    """Entry-DP, 1/ε: protects one instant if records are independent; correlation reveals more (SWC section 1)."""
    require_epsilon(epsilon)
    return LaplaceScale("entry", 1 / epsilon)


def group(length: int | None, epsilon: float) -> LaplaceScale:
    """Group-DP, T/ε: treats all instants as copies of one record (SWC Definition 2.2 with one group)."""
    require_epsilon(epsilon)
    require_length(length)
    if length is None:
        raise ValueError("the scale of group-DP grows with the length; give a finite length")
    return LaplaceScale("group", length / epsilon)


def gk16(chains: Iterable[Chain], length: int | None, epsilon: float) -> LaplaceScale:
    """Ghosh and Kleinberg's bound from the influence matrix Γ, where its spectral norm is below 1 (SWC section 5.1).

    Γ[i,j] is half the largest log-ratio by which x_j alone can change the law of x_i given all others. With
    Φ = (I−Γ)⁻¹, a query whose log-likelihood changes by at most 1/s per instant has a loss of at most 2·Σ_j Φ[i,j]/s
    at instant i.
    """
    require_epsilon(epsilon)
    require_length(length)
    sums = [_amplification(chain, length) for chain in chains]
    if not sums:
        raise ValueError("chains is empty; give at least one chain")
    return LaplaceScale("gk16", 2 * max(sums) / epsilon)


@dataclass(frozen=True, slots=True)
class InfluenceMatrix:
    """The non-zero entries of Γ: given its two neighbours, a node is independent of all others."""

    from_left: float
    from_right: float
    first_from_right: float
    last_from_left: float

    @classmethod
    def of(cls, chain: Chain) -> InfluenceMatrix:
        """Γ of a chain, from the conditional laws of a node given its neighbours."""
        P = chain.transition
        middle = np.einsum("ux,xv->uvx", P, P)
        last = P
        first = (chain.start()[:, None] * P).T
        return cls(
            from_left=max(_half_ratio(middle[:, v]) for v in range(chain.k)),
            from_right=max(_half_ratio(middle[u]) for u in range(chain.k)),
            first_from_right=_half_ratio(first),
            last_from_left=_half_ratio(last),
        )


def _half_ratio(weights: Matrix) -> float:
    """Half the largest log-ratio between the distributions proportional to the rows; zero rows are ignored."""
    totals = weights.sum(axis=1, keepdims=True)
    possible = totals[:, 0] > 0
    return float(log_ratios(weights[possible] / totals[possible]).max()) / 2


def _amplification(chain: Chain, length: int | None) -> float:
    """The largest row sum of Φ; ValueError if the spectral norm of Γ is 1 or more."""
    gammas = InfluenceMatrix.of(chain)
    if length is None:
        if chain.initial is not None:
            raise ValueError(
                "gk16 on an endless stream needs a stationary start; leave initial out or give a length"
            )
        norm = gammas.from_left + gammas.from_right
        if not norm < 1:
            raise ValueError(_refusal(f"{norm:.4g}"))
        return 1 / (1 - norm)
    left = [gammas.from_left] * length
    right = [gammas.from_right] * length
    left[0], right[0] = 0.0, gammas.first_from_right
    left[-1], right[-1] = gammas.last_from_left, 0.0
    if length == 1:
        return 1.0
    if not (max(left + right) < 1 and _norm_below_one(left, right)):
        raise ValueError(_refusal("1 or more"))
    return max(_row_sums(left, right))


def _refusal(norm: str) -> str:
    return (
        f"gk16 does not apply: the spectral norm of the influence matrix is {norm}, it must be below 1; "
        "use a method based on quilts"
    )


def _norm_below_one(left: list[float], right: list[float]) -> bool:
    """Whether I − ΓᵀΓ is positive definite, by Gaussian elimination.

    Γ has `left` below and `right` above its diagonal, so ΓᵀΓ couples each node with the second next only: two
    tridiagonal matrices, on the odd and on the even nodes, whose pivots must all be positive.
    """
    n = len(left)
    pivots = [1.0] * n
    for j in range(n):
        pivot = 1.0
        if j >= 1:
            pivot -= right[j - 1] ** 2
        if j + 1 < n:
            pivot -= left[j + 1] ** 2
        if j >= 2:
            pivot -= (left[j - 1] * right[j - 1]) ** 2 / pivots[j - 2]
        if pivot <= 0:
            return False
        pivots[j] = pivot
    return True


def _row_sums(left: list[float], right: list[float]) -> list[float]:
    """(I−Γ)⁻¹·1 for the same Γ, by elimination of a tridiagonal system."""
    n = len(left)
    upper, value = [0.0] * n, [0.0] * n
    for i in range(n):
        pivot = 1.0 - (left[i] * upper[i - 1] if i else 0.0)
        upper[i] = right[i] / pivot
        value[i] = (1.0 + (left[i] * value[i - 1] if i else 0.0)) / pivot
    sums = [0.0] * n
    for i in reversed(range(n)):
        sums[i] = value[i] + (upper[i] * sums[i + 1] if i + 1 < n else 0.0)
    return sums
