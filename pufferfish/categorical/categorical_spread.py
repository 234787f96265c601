"""The odds spread of a Θ of k states: how far log μ(a)/μ(b) can differ over its chains, for the worst pair of states.

μ is the law of the state at an instant, and every step may have another matrix (docs/theory-world.md, Theorem 18). No
law has μ(a)/μ(b) above t if no sequence of n steps makes μ(a) − t·μ(b) positive. The largest that it can become is a
decision process from the instant backwards, g ← max over rows of Σ_u P(c,u)·g(u) from g = [a] − t·[b], and then the
largest mean of g over the laws that are possible n steps before. Each n gives a valid bound; t is found by bisection.
With many states the bounds on the law itself are used, which are wider.

Standard library only, so that a device can verify a setting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.transition_intervals import Row, TransitionIntervals

MOST_STATES = 4
"""With more states the decision processes, k² of them, take a device too long."""

MOST_STEPS = 64
"""How many steps back are considered at most: slower chains have a wider bound."""

_CLOSE = 0.005
"""How near to the least valid bound the logarithm of one is found."""

_UNIT = 2.0**-48
"""Exceeds the rounding error of a mean of k values, relative to the largest."""

_UP = 1.0 + 2.0**-44


@lru_cache(maxsize=1024)
def odds_spread(theta: CategoricalTheta) -> float:
    """The largest width of log μ(a)/μ(b) over the chains of Θ, rounded up.

    0 for a single chain, which is stationary; infinite where μ may be 0.
    """
    if theta.forward.low == theta.forward.high:
        return 0.0
    rows, laws = theta.forward.tightened(), theta.forward.marginals()
    largest = {(a, b): _largest_odds(rows, laws, a, b) for a, b in permutations(range(theta.states), 2)}
    # The least μ(a)/μ(b) is the inverse of the largest μ(b)/μ(a).
    widest = max(largest[a, b] * largest[b, a] for a, b in largest)
    return max(0.0, math.log(widest)) * _UP + 2.0**-44 if math.isfinite(widest) else math.inf


def _largest_odds(rows: TransitionIntervals, laws: tuple[Row, Row], a: int, b: int) -> float:
    """An upper bound on μ(a)/μ(b); infinite where μ(b) may be 0."""
    rare, often = laws
    if rare[b] <= 0.0:
        return math.inf
    high = math.log(often[a] / rare[b]) + _UNIT
    if rows.k > MOST_STATES or rare[a] <= 0.0:
        return math.exp(high) * _UP
    low = math.log(rare[a] / often[b])
    while high - low > _CLOSE:
        middle = 0.5 * (low + high)
        if _never_exceeds(rows, laws, a, b, math.exp(middle)):
            high = middle
        else:
            low = middle
    return math.exp(high) * _UP


def _never_exceeds(rows: TransitionIntervals, laws: tuple[Row, Row], a: int, b: int, odds: float) -> bool:
    """Whether no sequence of matrices is found that makes μ(a) − odds·μ(b) positive."""
    k = rows.k
    gains = [float(u == a) - odds * (u == b) for u in range(k)]
    error = 0.0
    for _ in range(MOST_STEPS):
        if _largest_mean(*laws, gains) + error < 0.0:
            return True
        before = max(gains) - min(gains)
        gains = [_largest_mean(rows.low[c], rows.high[c], gains) for c in range(k)]
        error += k * _UNIT * (1.0 + odds)
        if max(gains) - min(gains) > (1.0 - 1e-12) * before or max(gains) - min(gains) < 1e-9 * (1.0 + odds):
            # What is left does not depend on the law.
            return _largest_mean(*laws, gains) + error < 0.0
    return False


def _largest_mean(low: Sequence[float], high: Sequence[float], values: Sequence[float]) -> float:
    """The largest mean of the values under weights between low and high that sum to one."""
    total, left = math.fsum(p * value for p, value in zip(low, values, strict=True)), 1.0 - math.fsum(low)
    for u in sorted(range(len(low)), key=values.__getitem__, reverse=True):
        if left <= 0.0:
            break
        more = min(high[u] - low[u], left)
        total += more * values[u]
        left -= more
    return total
