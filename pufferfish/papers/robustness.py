"""The guarantee of a Pufferfish mechanism against an adversary whose distribution is not in Θ (SWC section 2.3).

If, given any secret, the adversary's distribution is within Δ of some distribution in Θ in max-divergence in both
directions, an ε-Pufferfish mechanism has a loss of at most ε+2Δ. Δ grows with the length of a stream, so this is for
short records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmq.pufferfish.quilt.laplace_scale import require_length
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix, Vector


def loss(epsilon: float, closeness: float) -> float:
    """ε+2Δ (SWC Theorem 2.4)."""
    if not (epsilon >= 0 and closeness >= 0):
        raise ValueError(f"epsilon is {epsilon:g} and closeness {closeness:g}; both must be at least 0")
    return epsilon + 2 * closeness


def max_divergence(p: ArrayLike, q: ArrayLike) -> float:
    """D∞(p‖q) = max over x of log p(x)/q(x); infinite if the support of p is not in that of q (SWC Definition 2.3)."""
    first, second = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"p has shape {first.shape} and q {second.shape}; they must be alike")
    return float(_log_ratio(first, second).max())


def closeness(outside: Chain, theta: Iterable[Chain], length: int) -> float:
    """Δ: the infimum over Θ of the largest divergence from a chain outside Θ over all secrets, for `length` instants.

    The nearest chain is the same for all secrets, as in Theorem 2.4.
    """
    require_length(length)
    distances = [
        max(_largest_divergence(outside, chain, length), _largest_divergence(chain, outside, length))
        for chain in theta
    ]
    if not distances:
        raise ValueError("theta is empty; give at least one chain")
    return min(distances)


def _largest_divergence(p: Chain, q: Chain, length: int) -> float:
    """The largest D∞(p‖q) between the laws of the whole path given one secret.

    Given X_i = x, the log-ratio of a path is the sum of the log-ratios of its steps and of its initial state, minus
    that of the laws of X_i; dynamic programming finds the largest sums before and after i.
    """
    if p.k != q.k:
        raise ValueError(f"one chain has {p.k} states and the other {q.k}; they must be alike")
    steps = _log_ratio(p.transition, q.transition)
    after = [np.zeros(p.k)]
    for _ in range(length - 1):
        after.append(np.max(_sum_over_paths(steps, after[-1][None, :]), axis=1))
    before = _log_ratio(p.start(), q.start())
    laws = p.start(), q.start()
    worst = 0.0
    for i in range(length):
        possible = laws[0] > 0
        here = _log_ratio(*laws)
        if np.isinf(here[possible]).any():
            return math.inf
        worst = max(worst, float((before[possible] - here[possible] + after[length - 1 - i][possible]).max()))
        before = np.max(_sum_over_paths(before[:, None], steps), axis=0)
        laws = laws[0] @ p.transition, laws[1] @ q.transition
    return worst


def _log_ratio(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Elementwise log p/q; −∞ where p is 0, ∞ where only q is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, np.log(p) - np.log(q), -np.inf)


def _sum_over_paths(first: Matrix, second: Vector | Matrix) -> Matrix:
    """The sum, with −∞ + ∞ = −∞: a path impossible under p is ignored even if it is impossible under q."""
    with np.errstate(invalid="ignore"):
        total = first + second
    return np.where(np.isneginf(first) | np.isneginf(second), -np.inf, total)
