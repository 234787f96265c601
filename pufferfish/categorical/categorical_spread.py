"""The odds spread of a Θ of k states: how far log π(a)/π(b) can differ over its chains, for the worst pair of states.

π(a)/π(b) is the expected number of visits to a between two visits to b. Rows are chosen independently, so its maximum
over the intervals is the value of a decision process that ends in b and is paid for every visit to a; policy iteration
finds it, and any v with v(c) ≥ max over rows of Σ_u P(c,u)·([u=a] + [u≠b]·v(u)) is an upper bound, which is what is
returned: rounding cannot make it too small. The same holds for the time reversals, which have the same π. With many
states, or where no such v is found, the bounds on π itself are used, which are wider.

Standard library only, so that a device can verify a setting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals

MOST_STATES = 8
"""With more states the decision processes, k² of them, take a device too long."""

_ROUNDS = 64
"""The largest number of rounds of policy iteration; few are needed."""

_MARGIN = 1e-7
"""By how much, relative, a value is raised to be an upper bound whatever the rounding."""

_UNIT = 2.0**-48
"""Exceeds the rounding error of a mean of k values, relative to the largest."""

_UP = 1.0 + 2.0**-44


@lru_cache(maxsize=1024)
def odds_spread(theta: CategoricalTheta) -> float:
    """The largest width of log π(a)/π(b) over the chains of Θ, rounded up.

    0 for a single chain; infinite where π may be 0.
    """
    if theta.forward.low == theta.forward.high:
        return 0.0
    k, sides = theta.states, (theta.forward, theta.backward)
    laws = [side.stationary() for side in sides]
    often = [min(high[a] for _, high in laws) for a in range(k)]
    rare = [max(low[a] for low, _ in laws) for a in range(k)]
    largest = {}
    for a, b in permutations(range(k), 2):
        bounds = [often[a] / rare[b] if rare[b] > 0 else math.inf]
        if k <= MOST_STATES:
            bounds += [largest_odds(side, a, b) for side in sides]
        largest[a, b] = min(bounds)
    # The least π(a)/π(b) is the inverse of the largest π(b)/π(a).
    widest = max(largest[a, b] * largest[b, a] for a, b in largest)
    return max(0.0, math.log(widest)) * _UP + 2.0**-44 if math.isfinite(widest) else math.inf


def largest_odds(intervals: TransitionIntervals, a: int, b: int) -> float:
    """An upper bound on π(a)/π(b) for every chain within the intervals; infinite where none is found."""
    rows = intervals.tightened()
    if _may_avoid(rows, b):
        return math.inf
    others = [c for c in range(rows.k) if c != b]
    visits = _value(rows, others, [float(u == a) for u in range(rows.k)])
    ticks = _value(rows, others, [1.0] * rows.k)
    if visits is None or ticks is None:
        return math.inf
    # Raised in proportion to the expected time to b: by the equation for `ticks` this is a strict upper bound.
    longest = max(ticks[c] for c in others)
    raised = [
        0.0 if c == b else visits[c] + _MARGIN * (1.0 + max(visits)) * ticks[c] / longest
        for c in range(rows.k)
    ]
    gains = [(u == a) + raised[u] for u in range(rows.k)]
    scale = _UNIT * rows.k * max(gains)
    if all(_best_mean(rows, c, gains)[0] + scale <= raised[c] for c in others):
        return _best_mean(rows, b, gains)[0] + scale
    return math.inf


def _may_avoid(rows: TransitionIntervals, b: int) -> bool:
    """Whether some chain within the intervals has a closed set of states without b."""
    inside = set(range(rows.k)) - {b}
    while inside:
        leaving = {
            c
            for c in inside
            if any(rows.low[c][u] > 0 for u in range(rows.k) if u not in inside)
            or math.fsum(rows.high[c][u] for u in inside) < 1 - 1e-9
        }
        if not leaving:
            return True
        inside -= leaving
    return False


def _value(rows: TransitionIntervals, others: Sequence[int], paid: Sequence[float]) -> list[float] | None:
    """The largest expected sum of `paid` over the states entered before the end state, from each of the others."""
    value = [0.0] * rows.k
    for _ in range(_ROUNDS):
        gains = [paid[u] + value[u] for u in range(rows.k)]
        chosen = {c: _best_mean(rows, c, gains)[1] for c in others}
        solved = _solve(
            [[float(c == u) - chosen[c][u] for u in others] for c in others],
            [math.fsum(p * gain for p, gain in zip(chosen[c], paid, strict=True)) for c in others],
        )
        if solved is None or not all(math.isfinite(one) and one >= 0.0 for one in solved):
            return None
        settled = all(one <= value[c] * (1 + 2.0**-44) for c, one in zip(others, solved, strict=True))
        for c, one in zip(others, solved, strict=True):
            value[c] = one
        if settled:
            break
    return value


def _best_mean(rows: TransitionIntervals, c: int, gains: Sequence[float]) -> tuple[float, list[float]]:
    """The largest mean of the gains under a row of c, and that row: mass goes to the largest gains first."""
    low, high = rows.low[c], rows.high[c]
    row, left = list(low), 1.0 - math.fsum(low)
    for u in sorted(range(rows.k), key=gains.__getitem__, reverse=True):
        more = min(high[u] - low[u], max(left, 0.0))
        row[u] += more
        left -= more
    return math.fsum(p * gain for p, gain in zip(row, gains, strict=True)), row


def _solve(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """Solves a small linear system by elimination with the largest pivots; None if it is singular."""
    n = len(right)
    rows = [[*row, one] for row, one in zip(matrix, right, strict=True)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda j: abs(rows[j][i]))
        if rows[pivot][i] == 0.0:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for j in range(n):
            if j != i:
                factor = rows[j][i] / rows[i][i]
                rows[j] = [x - factor * y for x, y in zip(rows[j], rows[i], strict=True)]
    return [rows[i][n] / rows[i][i] for i in range(n)]
