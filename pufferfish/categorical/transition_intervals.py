"""Entrywise intervals of the transition matrix of a k-state chain.

`TransitionIntervals` is a frozen value of plain numbers, so that a device can verify settings without numpy. Derived
quantities (powers, laws, the time reversal) are rounded outwards and hold for every chain within the intervals. Powers,
marginal laws and the time reversal also hold if every step has another matrix within them (docs/theory-world.md,
Theorem 18); intervals of a single matrix stand for a stationary chain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Row = tuple[float, ...]
Rows = tuple[Row, ...]

SUM_TOLERANCE = 1e-9
"""The tolerance for bounds of a row that exclude a sum of one by rounding."""

_UNIT = 2.0**-50
"""Exceeds the rounding error of an operation on numbers of at most 1."""

_ROUNDS = 60
"""The largest number of refinements of the bounds on the stationary law; every refinement is valid."""


@dataclass(frozen=True, slots=True)
class TransitionIntervals:
    """low[x][u] ≤ P(x→u) ≤ high[x][u] for every pair of states."""

    low: Rows
    high: Rows

    def __post_init__(self) -> None:
        k = len(self.low)
        if k < 2 or len(self.high) != k:
            raise ValueError("low and high must be square matrices of the same size, for 2 states at least")
        for x in range(k):
            if len(self.low[x]) != k or len(self.high[x]) != k:
                raise ValueError(f"row {x} must have {k} entries in low and in high")
            for u in range(k):
                if not 0.0 <= self.low[x][u] <= self.high[x][u] <= 1.0:
                    raise ValueError(f"entry {x}, {u} must have 0 ≤ low ≤ high ≤ 1")
            if math.fsum(self.low[x]) > 1 + SUM_TOLERANCE or math.fsum(self.high[x]) < 1 - SUM_TOLERANCE:
                raise ValueError(f"row {x} leaves no probabilities that sum to 1")

    @classmethod
    def point(cls, transition: Sequence[Sequence[float]]) -> TransitionIntervals:
        """The intervals of a single chain."""
        rows = tuple(tuple(map(float, row)) for row in transition)
        return cls(rows, rows)

    @property
    def k(self) -> int:
        """The number of states."""
        return len(self.low)

    def contains(self, other: TransitionIntervals) -> bool:
        """Whether every chain within the other intervals is within these."""
        return self.k == other.k and all(
            mine <= theirs
            for less, more in ((self.low, other.low), (other.high, self.high))
            for row, other_row in zip(less, more, strict=True)
            for mine, theirs in zip(row, other_row, strict=True)
        )

    def intersect(self, other: TransitionIntervals) -> TransitionIntervals:
        """The chains within both; ValueError if there are none."""
        return self._combine(other, max, min)

    def hull(self, other: TransitionIntervals) -> TransitionIntervals:
        """The smallest intervals that contain both."""
        return self._combine(other, min, max)

    def _combine(
        self,
        other: TransitionIntervals,
        lows: Callable[[float, float], float],
        highs: Callable[[float, float], float],
    ) -> TransitionIntervals:
        if self.k != other.k:
            raise ValueError(f"Θ of {self.k} and of {other.k} states have nothing in common")
        return TransitionIntervals(
            _entrywise(lows, self.low, other.low), _entrywise(highs, self.high, other.high)
        )

    def tightened(self) -> TransitionIntervals:
        """The same set of chains, with each bound tightened by the others of its row."""
        low, high = [], []
        for less, more in zip(self.low, self.high, strict=True):
            lows, highs = math.fsum(less), math.fsum(more)
            row = [max(a, 1 - (highs - b) - _UNIT) for a, b in zip(less, more, strict=True)]
            low.append(tuple(row))
            high.append(
                tuple(
                    max(min(b, 1 - (lows - a) + _UNIT), new)
                    for a, b, new in zip(less, more, row, strict=True)
                )
            )
        return TransitionIntervals(tuple(low), tuple(high))

    def power(self, hops: int) -> TransitionIntervals:
        """Intervals that contain P^hops for every chain P within these."""
        power = self.tightened()
        for _ in range(hops - 1):
            power = self.times(power)
        return power

    def times(self, after: TransitionIntervals) -> TransitionIntervals:
        """Intervals that contain P·Q for every P within these and every Q within `after`."""
        bounds = []
        for values, sign in ((after.low, -1), (after.high, 1)):
            columns = []
            for u in range(self.k):
                column = [row[u] for row in values]
                order = sorted(range(self.k), key=column.__getitem__, reverse=sign > 0)
                columns.append([self._mean(x, column, order) + sign * self.k * _UNIT for x in range(self.k)])
            bounds.append(
                tuple(tuple(min(max(column[x], 0.0), 1.0) for column in columns) for x in range(self.k))
            )
        return TransitionIntervals(bounds[0], bounds[1]).tightened()

    def _mean(self, x: int, values: Sequence[float], order: Sequence[int]) -> float:
        """The extreme mean of the values under a row of x: mass goes to the states in this order."""
        return _mean(self.low[x], self.high[x], values, order)

    def stationary(self) -> tuple[Row, Row]:
        """Bounds on the stationary law of every chain within the intervals.

        By global balance π(v)·(1 − P(v,v)) = Σ_{u≠v} π(u)·P(u,v). With X the π-weighted mean of P(u,v) over the other
        states, π(v) = X/(X + 1 − P(v,v)). Bounds on π bound the weights of X and hence each other.
        """
        return self._laws(changing=False)

    def marginals(self) -> tuple[Row, Row]:
        """Bounds on the law at every instant, if each step has another matrix within the intervals, for ever.

        μ'(v) = μ(v)·P(v,v) + (1 − μ(v))·X. Where P(v,v) ≥ X this rises in μ(v), so that the largest μ(v) there ever is
        satisfies the bound for the stationary law; otherwise it is largest where μ(v) is least, and vice versa.
        """
        return self._laws(changing=True)

    def _laws(self, *, changing: bool) -> tuple[Row, Row]:
        k = self.k
        low, high = [0.0] * k, [1.0] * k
        for _ in range(_ROUNDS):
            before = low + high
            for v in range(k):
                others = [u for u in range(k) if u != v]
                least = [low[u] / (1 - low[v]) if low[v] < 1 else 0.0 for u in others]
                most = [min(1.0, high[u] / (1 - high[v])) if high[v] < 1 else 1.0 for u in others]
                for values, sign in ((self.low, -1), (self.high, 1)):
                    into = [values[u][v] for u in others]
                    order = sorted(range(k - 1), key=into.__getitem__, reverse=sign > 0)
                    mean = max(_mean(least, most, into, order) + sign * k * _UNIT, 0.0)
                    away = 1 - values[v][v]
                    if changing and values[v][v] < mean:
                        other = low[v] if sign > 0 else high[v]
                        share = other * values[v][v] + (1 - other) * mean
                    else:
                        share = mean / (mean + away) if mean + away > 0 else float(sign > 0)
                    if changing:
                        # One step from any law within the bounds so far.
                        column = [row[v] for row in values]
                        order = sorted(range(k), key=column.__getitem__, reverse=sign > 0)
                        image = _mean(low, high, column, order) + sign * k * _UNIT
                        share = min(share, image) if sign > 0 else max(share, image)
                    if sign < 0:
                        low[v] = max(low[v], share - _UNIT)
                    else:
                        high[v] = max(min(high[v], share + _UNIT), low[v])
            if max(abs(a - b) for a, b in zip(before, low + high, strict=True)) <= _UNIT:
                break
        return tuple(low), tuple(high)

    def reversal(self) -> TransitionIntervals:
        """Intervals that contain the time reversal of every chain within these, and of every sequence of matrices.

        The reversal of a step is P*(x,u) = F(u,x)/Σ_w F(w,x) with the flow F(u,x) = μ(u)·P(u,x), where μ is the law
        before the step; the sum is the law after it. For a stationary chain P*(x,x) = P(x,x).
        """
        k = self.k
        single = self.low == self.high
        rare, often = self.stationary() if single else self.marginals()
        low, high = [], []
        for x in range(k):
            least = [rare[u] * self.low[u][x] for u in range(k)]
            most = [often[u] * self.high[u][x] for u in range(k)]
            down, up = [], []
            for u in range(k):
                if single and u == x:
                    down.append(self.low[x][x])
                    up.append(self.high[x][x])
                    continue
                down.append(max(_share(least, most, u, 0.0), _ratio(least[u], often[x], 0.0)) - _UNIT)
                up.append(min(_share(most, least, u, 1.0), _ratio(most[u], rare[x], 1.0)) + _UNIT)
            low.append(tuple(max(value, 0.0) for value in down))
            high.append(tuple(max(min(value, 1.0), less) for value, less in zip(up, low[-1], strict=True)))
        return TransitionIntervals(tuple(low), tuple(high)).tightened()


def _entrywise(function: Callable[[float, float], float], one: Rows, other: Rows) -> Rows:
    return tuple(tuple(map(function, a, b)) for a, b in zip(one, other, strict=True))


def _mean(
    low: Sequence[float], high: Sequence[float], values: Sequence[float], order: Sequence[int]
) -> float:
    """Σ w·values for weights between low and high that sum to one, as large as possible in this order."""
    left = 1 - math.fsum(low)
    terms = [weight * value for weight, value in zip(low, values, strict=True)]
    for u in order:
        if left <= 0:
            break
        more = min(high[u] - low[u], left)
        terms.append(more * values[u])
        left -= more
    return math.fsum(terms)


def _share(mine: Sequence[float], theirs: Sequence[float], u: int, unknown: float) -> float:
    """mine[u]/(mine[u] + Σ_{w≠u} theirs[w]); `unknown` if both are 0."""
    rest = math.fsum(theirs[:u]) + math.fsum(theirs[u + 1 :])
    return _ratio(mine[u], mine[u] + rest, unknown)


def _ratio(part: float, whole: float, unknown: float) -> float:
    return part / whole if whole > 0 else unknown
