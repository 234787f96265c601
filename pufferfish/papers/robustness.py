"""What a guarantee for Θ is worth against an adversary who believes something else (SWC section 2.3).

If the adversary's belief, given any secret, is within Δ of some belief in Θ in max-divergence both ways, an
ε-Pufferfish mechanism tells them at most ε+2Δ. Over a whole stream Δ grows with its length: this is for short records.
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
    """D∞(p‖q) = max over x of log p(x)/q(x); infinite where q misses a value of p (SWC Definition 2.3)."""
    first, second = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"p has shape {first.shape} and q {second.shape}; they must be alike")
    return float(_log_ratio(first, second).max())


def closeness(belief: Chain, theta: Iterable[Chain], length: int) -> float:
    """Δ: how far a chain is, over `length` instants and given any state at any of them, from the nearest in Θ.

    Nearest is meant once for all secrets, as in Theorem 2.4: the infimum over Θ of the largest divergence.
    """
    require_length(length)
    distances = [max(_apart(belief, chain, length), _apart(chain, belief, length)) for chain in theta]
    if not distances:
        raise ValueError("theta is empty; give at least one chain")
    return min(distances)


def _apart(p: Chain, q: Chain, length: int) -> float:
    """The largest D∞(p‖q) between the laws of the whole path given one secret.

    Given X_i = x a path's log-ratio is the sum of its steps' log-ratios and the start's, less that of the laws
    of X_i; the largest sum before i and after i are found step by step.
    """
    if p.k != q.k:
        raise ValueError(f"one chain has {p.k} states and the other {q.k}; they must be alike")
    steps = _log_ratio(p.transition, q.transition)
    after = [np.zeros(p.k)]
    for _ in range(length - 1):
        after.append(np.max(_plus(steps, after[-1][None, :]), axis=1))
    before = _log_ratio(p.start(), q.start())
    laws = p.start(), q.start()
    worst = 0.0
    for i in range(length):
        possible = laws[0] > 0
        here = _log_ratio(*laws)
        if np.isinf(here[possible]).any():
            return math.inf
        worst = max(worst, float((before[possible] - here[possible] + after[length - 1 - i][possible]).max()))
        before = np.max(_plus(before[:, None], steps), axis=0)
        laws = laws[0] @ p.transition, laws[1] @ q.transition
    return worst


def _log_ratio(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Elementwise log p/q; −∞ where p is 0 (the value never occurs), ∞ where only q is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, np.log(p) - np.log(q), -np.inf)


def _plus(first: Matrix, second: Vector | Matrix) -> Matrix:
    """The sum, where an impossible step makes the path impossible even after one the other law lacks."""
    with np.errstate(invalid="ignore"):
        total = first + second
    return np.where(np.isneginf(first) | np.isneginf(second), -np.inf, total)
