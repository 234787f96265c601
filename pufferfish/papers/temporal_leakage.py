"""Temporal privacy leakage: what event-level DP loses on a Markov chain (Cao, Yoshikawa, Xiao, Xiong, TKDE 2018).

The leakage at an instant is the backward leakage of all outputs up to it, plus the forward leakage of all outputs from
it on, minus the cost of its own output, which both contain. A step passes a leakage on through the rows of the
transition matrix.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from hushmq.pufferfish.false_position import largest_within
from hushmq.pufferfish.quilt.laplace_scale import require_epsilon
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix

PRECISION = 1e-9
_LONGEST = 1_000_000
_SETTLED = 1e-13


def passed_on(matrix: Matrix, leakage: float) -> float:
    """L(α) = max over rows a, b and sets S of log (a(S)(e^α − 1) + 1) / (b(S)(e^α − 1) + 1).

    For each pair of rows the best set is a prefix of the states sorted by a/b.
    """
    grown, best = math.expm1(leakage), 0.0
    for a, b in itertools.permutations(matrix, 2):
        order = np.argsort(-(a / np.maximum(b, 1e-300)))
        top, bottom = np.cumsum(a[order]), np.cumsum(b[order])
        best = max(best, float(np.log((1 + grown * top) / (1 + grown * bottom)).max()))
    return best


def endless_leakage(chain: Chain, tau: float) -> float:
    """The supremum of the leakage over instants and lengths, where every output costs τ by itself."""
    return _one_way(chain.transition, tau) + _one_way(chain.reversal().transition, tau) - tau


def largest_tilt(chain: Chain, epsilon: float) -> float:
    """The largest cost of one output whose leakage stays within ε for ever."""
    require_epsilon(epsilon)
    return largest_within(lambda tau: endless_leakage(chain, tau), epsilon, epsilon, PRECISION)


def _one_way(matrix: Matrix, tau: float) -> float:
    """The fixed point of α = τ + L(α), from below, with the rest of a geometric series on top."""
    leakage, last = tau, math.inf
    for _ in range(_LONGEST):
        step = tau + passed_on(matrix, leakage) - leakage
        leakage += step
        if step <= _SETTLED * leakage:
            break
        last = step
    else:
        raise ValueError(f"the leakage of outputs that cost {tau:g} does not settle on this chain")
    slope = min(0.999_999, step / last) if last < math.inf else 0.0
    return leakage + step * slope / (1 - slope)
