"""What one side of a stream tells an adversary who knows a state on it: the bridge of a chain to a known state.

Let the nearest known instant of a side lie J ticks away, in state y. What lies beyond it tells nothing more. Up to
there the chain is a bridge, an inhomogeneous chain: a step of h ticks leads from x to u with a probability proportional
to P^h(x,u)·w(u), where w(u) = P^{J−h}(u,y). With x_J a bound on the log-ratio that such a side gives, and a tilt of τ
at every tick,

    x_J ≤ (J − 1)·τ,   x_J ≤ (h − 1)·τ + step(τ + x_{J−h}),

where `step` is that of pufferfish/categorical/contraction.py with the rows of the bridge (docs/theory-k.md, Theorem
11). The weights w are computed for every distance, as intervals for the chains of a Θ, and joined over ranges of
distances that grow with the distance. Beyond the last range, w varies over the states by at most e^H with a small H:
all such weights at once are the *tail*, whose bound holds at every farther distance, and where nothing is known.

Standard library only, so that a device can verify a setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

from hushmq.pufferfish.bisection import bisection
from hushmq.pufferfish.categorical.set_excess import largest_set_excess
from hushmq.pufferfish.categorical.transition_intervals import Row, TransitionIntervals

Bounds = tuple[Row, Row]
"""The least and the largest value of each entry of a row."""

Ratios = tuple[Row, ...]
"""ratios[x][u] is at least w(u)/w(x)."""

Pairs = list[tuple[Bounds, Bounds]]
"""The bounds on the rows of ordered pairs of states."""

SINGLY = 16
"""Up to this distance every distance has its own weights; beyond, each doubling of it has SINGLY/2 ranges."""

FARTHEST = 4096
"""The largest distance of a known instant whose weights are computed."""

LEVEL = 0.01
"""Weights that vary by at most e^LEVEL over the states belong to the tail."""

HIGHEST = 30.0
"""The largest bound that is searched for."""

_BLOCKS = 4
"""A range is crossed in about so many evaluations, however many steps it has."""

_UP = 1.0 + 2.0**-46
_UNIT = 2.0**-48

_SLACK = 2.0**-40
"""Bounds this close to each other are taken as equal, because rows without a width are quicker to compare."""


@dataclass(frozen=True, slots=True)
class Range:
    """The known instant is `first` to `last` ticks beyond the end of the step: ratios of w for each known state."""

    first: int
    last: int
    ratios: tuple[Ratios, ...]

    def joined(self, after: Range) -> Range:
        """The distances of both."""
        return Range(
            self.first,
            after.last,
            tuple(_entrywise(max, one, other) for one, other in zip(self.ratios, after.ratios, strict=True)),
        )

    def within(self, bounds: Sequence[Ratios]) -> Range:
        """The same distances, with the smaller of two bounds on every ratio."""
        pairs = zip(self.ratios, bounds, strict=True)
        return Range(self.first, self.last, tuple(_entrywise(min, one, other) for one, other in pairs))

    @property
    def level(self) -> float:
        """How far the weights vary over the states, as a log-ratio, at all these distances."""
        return math.log(max(largest for ratios in self.ratios for row in ratios for largest in row))


class BridgeSide:
    """The bridges of one side of a stream, for every chain of a class."""

    def __init__(self, intervals: TransitionIntervals) -> None:
        self._intervals = intervals
        self._rows: dict[int, tuple[list[list[Pairs]], Pairs]] = {}

    def bound(self, hops: int, tau: float, floor: float = 0.0) -> float:
        """A bound, `floor` at least, on what the side tells whatever is known on it, by steps of `hops` ticks.

        τ is the largest tilt. Infinite if nothing is proved.
        """
        skipped = (hops - 1) * tau
        ranges, tail = self._pairs(hops)
        start = max(
            [floor, skipped, *(self._largest(ranges, tail, y, hops, tau) for y in range(self._intervals.k))]
        )

        def grows(R: float) -> bool:
            return skipped + step(tail, tau + R) > R

        low, high = start, start
        while grows(high):
            low, high = high, skipped + 2 * (high - skipped) + tau
            if high > HIGHEST:
                return math.inf
        return bisection(grows, low, high, relative=1e-10)[1] if high > low else high

    def _largest(self, ranges: list[list[Pairs]], tail: Pairs, y: int, hops: int, tau: float) -> float:
        """The largest x_J before the tail, of a known instant in state y.

        x bounds x_J at the last `hops` distances up to J. Each step grows by less than the one before it, as `step` has
        a slope below 1; so several steps through one range grow by at most so many times the first.
        """
        skipped = (hops - 1) * tau
        x = largest = skipped
        J, here = hops, 0
        while self._ranges[-1].last > J - hops:
            while self._ranges[here].last < J - hops + 1:
                here += 1
            last, reached = here, skipped
            while True:
                reached = max(reached, skipped + step(ranges[last][y], tau + x))
                if self._ranges[last].last >= J:
                    break
                last += 1
                if last == len(ranges):
                    reached = max(reached, skipped + step(tail, tau + x))
                    break
            steps = (self._ranges[here].last - J) // hops + 1 if last == here else 1
            if reached > x:
                steps = -(-steps // _BLOCKS)
                reached = x + steps * (reached - x)
            J += steps * hops
            x = min(reached, (J - 1) * tau)
            largest = max(largest, x)
        return largest

    def _pairs(self, hops: int) -> tuple[list[list[Pairs]], Pairs]:
        """The rows of the bridges, by range and known state, and of the tail, for steps of this length."""
        if hops not in self._rows:
            power = self._intervals.power(hops)
            ranges = [[_pairs(power, ratios) for ratios in one.ratios] for one in self._ranges]
            level = _ratio(self._ranges[-1].level)
            tail = tuple(tuple(1.0 if u == x else level for u in range(power.k)) for x in range(power.k))
            self._rows[hops] = ranges, _pairs(power, tail)
        return self._rows[hops]

    @cached_property
    def _ranges(self) -> list[Range]:
        """Ranges of distances without a gap. At all distances beyond, weights vary by no more than in the last.

        w at a distance of J + m is P^m times w at J: the later half of the ranges, (m, 2m], is moved by m and by 2m.
        """
        powers = [self._intervals.tightened()]
        while len(powers) < SINGLY:
            powers.append(self._intervals.times(powers[-1]))
        levels = _Levels(powers)
        found = [Range(1, 1, tuple(_column_ratios(powers[0], y) for y in range(powers[0].k)))]
        while len(found) < SINGLY:
            columns = [_column_ratios(powers[len(found)], y) for y in range(powers[0].k)]
            found.append(_Mover(powers[0], 1, levels).moved(found[-1]).within(columns))
        m, half, once, twice = SINGLY // 2, found[SINGLY // 2 :], powers[SINGLY // 2 - 1], powers[SINGLY - 1]
        while found[-1].level > LEVEL and 2 * m < FARTHEST:
            movers = _Mover(once, m, levels), _Mover(twice, 2 * m, levels)
            moved = [mover.moved(one) for mover in movers for one in half]
            half = [one.joined(other) for one, other in zip(moved[::2], moved[1::2], strict=True)]
            found.extend(half)
            m, once, twice = 2 * m, twice, twice.times(twice)
        return found


class _Levels:
    """How far w varies over the states, as a log-ratio, at every distance: the step of what it varies by before."""

    def __init__(self, powers: Sequence[TransitionIntervals]) -> None:
        self._stride, pairs = self._quickest(powers)
        self._levels = [math.inf, step(pairs, math.inf)]
        while LEVEL / 4 < self._levels[-1] < math.inf and len(self._levels) * self._stride < FARTHEST:
            self._levels.append(step(pairs, self._levels[-1]))

    @staticmethod
    def _quickest(powers: Sequence[TransitionIntervals]) -> tuple[int, Pairs]:
        """The number of ticks whose step forgets most for each of them."""
        best, stride, chosen = -math.inf, 1, _rows_of(powers[0])
        for ticks in (1, 2, 4, 8, 16):
            pairs = _rows_of(powers[ticks - 1])
            if step(pairs, math.inf) < math.inf:
                rate = -math.log(step(pairs, 0.1) / 0.1 + _UNIT) / ticks
                if rate > best:
                    best, stride, chosen = rate, ticks, pairs
        return stride, chosen

    def at(self, distance: int) -> float:
        """The level at this distance and beyond."""
        return self._levels[min(distance // self._stride, len(self._levels) - 1)]


class _Mover:
    """Moves the known instant m ticks farther away."""

    def __init__(self, power: TransitionIntervals, ticks: int, levels: _Levels) -> None:
        self._ticks, self._levels = ticks, levels
        self._rows = list(zip(power.low, power.high, strict=True))

    def moved(self, one: Range) -> Range:
        """The ratios so many ticks farther away."""
        first, last = one.first + self._ticks, one.last + self._ticks
        level = _ratio(self._levels.at(first))
        return Range(first, last, tuple(self._moved(ratios, level) for ratios in one.ratios))

    def _moved(self, ratios: Ratios, level: float) -> Ratios:
        """P·w(u) at most by P·w(x) at least, both relative to the weight of one state; at most `level`."""
        k = len(self._rows)
        largest = [[1.0 if u == x else level for u in range(k)] for x in range(k)]
        for least, most in filter(None, (_relative(ratios, pivot) for pivot in range(k))):
            by_most = sorted(range(k), key=most.__getitem__, reverse=True)
            by_least = sorted(range(k), key=least.__getitem__)
            above = [_mean(row, most, by_most) for row in self._rows]
            below = [_mean(row, least, by_least) for row in self._rows]
            for x, u in permutations(range(k), 2):
                largest[x][u] = min(largest[x][u], _quotient(above[u], below[x]) * _UP)
        return tuple(map(tuple, largest))


def step(pairs: Pairs, D: float) -> float:
    """The least R found with c(λ)·(e^D − 1) ≤ λ − 1, λ = e^R, for all of these rows; at most D.

    c is convex and falls in λ: for every λ below the least, 1 + c(λ)·(e^D − 1) is large enough, and so is the point
    where the chord of c between the two meets the line.
    """
    if D <= 0.0 or not pairs:
        return 0.0
    if D > 2 * HIGHEST:
        limit = max(_influence(a, b) for a, b in pairs)
        return min(D, limit * _UP)
    gain, gap = math.expm1(D), 0.0
    for above, below in pairs:
        c = _excess(above, below, gap)
        high = c * gain
        if high <= gap:
            continue
        low, at_low = gap, c
        for _ in range(4):
            at_high = _excess(above, below, high)
            if high - at_high * gain <= 1e-7 * high:
                break
            fall = (at_low - at_high) / (high - low)
            high = min(high, gain * (at_low + fall * low) / (1.0 + gain * fall) * _UP)
        gap = high
    return min(D, math.log1p(gap) * _UP)


def _excess(above: Bounds, below: Bounds, gap: float) -> float:
    """c(1 + gap), with what `_collapsed` left out."""
    return min(largest_set_excess(above, below, 1.0 + gap) + _SLACK * len(above[0]) * (2.0 + gap), 1.0)


def _influence(above: Bounds, below: Bounds) -> float:
    """max_u log a(u)/b(u): the step from an unlimited D."""
    largest = 0.0
    for a, b in zip(above[1], below[0], strict=True):
        if a > 0.0:
            largest = max(largest, math.log(a / b)) if b > 0.0 else math.inf
    return largest


def _pairs(power: TransitionIntervals, ratios: Ratios) -> Pairs:
    """The pairs of rows of the bridge, of states from which the known one can be reached."""
    weights = [_relative(ratios, pivot) for pivot in range(power.k)]
    anywhere = next((one for one in weights if one is not None), ((0.0,) * power.k, (1.0,) * power.k))
    rows = (
        bridge_row((low, high), own or anywhere)
        for low, high, own in zip(power.low, power.high, weights, strict=True)
    )
    return _farthest_first([row for row in rows if row is not None])


def _rows_of(power: TransitionIntervals) -> Pairs:
    return _farthest_first([_collapsed(*row) for row in zip(power.low, power.high, strict=True)])


def _farthest_first(rows: Sequence[Bounds]) -> Pairs:
    """All ordered pairs of rows, those that differ most first: the others are then soon seen to be within."""
    return sorted(permutations(rows, 2), key=lambda pair: -largest_set_excess(pair[0], pair[1], 1.0))


def _relative(ratios: Ratios, pivot: int) -> Bounds | None:
    """Bounds on the weights by that of one state; None if that may be 0."""
    most = ratios[pivot]
    if max(most) == math.inf:
        return None
    return tuple(1.0 / row[pivot] / _UP for row in ratios), tuple(most)


def bridge_row(row: Bounds, weights: Bounds) -> Bounds | None:
    """Bounds on a(u)·w(u)/Σ_v a(v)·w(v) for a row a and weights w within bounds; None if all are 0.

    The share of u is least where a(u) and w(u) are least, and the rest of a goes to the largest weights.
    """
    (a_low, a_high), (w_low, w_high) = row, weights
    if not any(a * w for a, w in zip(a_high, w_high, strict=True)):
        return None
    k = len(a_low)
    by_high = sorted(range(k), key=w_high.__getitem__, reverse=True)
    by_low = sorted(range(k), key=w_low.__getitem__)
    low, high = [], []
    for u in range(k):
        part, rest = a_low[u] * w_low[u], _rest(row, u, a_low[u], w_high, by_high)
        low.append(max(part / (part + rest) - k * _UNIT, 0.0) if part > 0.0 else 0.0)
        part, rest = a_high[u] * w_high[u], _rest(row, u, a_high[u], w_low, by_low)
        high.append(min(part / (part + rest) + k * _UNIT, 1.0) if part > 0.0 else 0.0)
    return _collapsed(tuple(low), tuple(high))


def _collapsed(low: Row, high: Row) -> Bounds:
    """The same bounds; the upper ones twice if none is wider than _SLACK."""
    if max(b - a for a, b in zip(low, high, strict=True)) > _SLACK:
        return low, high
    whole = math.fsum(high)
    row = tuple(b / whole for b in high)
    return row, row


def _rest(row: Bounds, u: int, mine: float, weights: Row, order: Sequence[int]) -> float:
    """Σ_{v≠u} a(v)·w(v) where a(u) is given and the rest of a is put on the states in this order."""
    low, high = row
    left = 1.0 - mine - math.fsum(low) + low[u]
    total = math.fsum(low[v] * weights[v] for v in order if v != u)
    for v in order:
        if left <= 0.0:
            break
        if v != u:
            more = min(high[v] - low[v], left)
            total += more * weights[v]
            left -= more
    return total


def _mean(row: Bounds, weights: Row, order: Sequence[int]) -> float:
    """Σ a(v)·w(v) for the row a whose mass is put on the states in this order."""
    low, high = row
    left = 1.0 - math.fsum(low)
    total = math.fsum(a * w for a, w in zip(low, weights, strict=True))
    for v in order:
        if left <= 0.0:
            break
        more = min(high[v] - low[v], left)
        total += more * weights[v]
        left -= more
    return total


def _column_ratios(power: TransitionIntervals, y: int) -> Ratios:
    """Bounds on P^J(u,y)/P^J(x,y)."""
    return tuple(
        tuple(1.0 if u == x else _quotient(power.high[u][y], power.low[x][y]) * _UP for u in range(power.k))
        for x in range(power.k)
    )


def _ratio(level: float) -> float:
    """e^level, rounded up; infinite where it would be too large for a float."""
    return math.exp(level) * _UP if level < 700.0 else math.inf


def _quotient(above: float, below: float) -> float:
    if above == 0.0:
        return 0.0
    return above / below if below > 0.0 else math.inf


def _entrywise(function: Callable[[float, float], float], one: Ratios, other: Ratios) -> Ratios:
    return tuple(tuple(map(function, a, b)) for a, b in zip(one, other, strict=True))
