"""Bounds for every chain whose transition probabilities lie between two matrices: one number for each side of a tick.

docs/theory-k.md, Theorem 8. Let R bound what one side says about the state here, as a log-ratio. A step over h ticks
costs the tilts that it skips, plus

    step(D) = the largest ln (1 + G·a(S)) / (1 + G·b(S)),   G = e^D − 1,   D = the tilt h ticks away + R there,

over two rows a, b of P^h and all sets S of states. Every set is enumerated, in whole numbers: a(S) at most, b(S) at
least, as the bounds of the entries and a sum of one allow. Of the points (b(S), a(S)) only the corners of their upper
left convex hull can be the largest for some G, so the rest is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from hushmq.verify.outward import DOWN, UP, Interval, exact, exp, ln
from hushmq.verify.tilt_sequence import Stretch

SCALE = 10**30
"""Probabilities are whole multiples of 1/SCALE, lower bounds rounded down and upper bounds up."""
MOST_STATES = 12
"""With more, there are too many sets to enumerate."""
ROW_SUM = SCALE // 10**9
"""A row of bounds may miss a sum of one by this much, since its numbers were rounded; it is widened by as much."""
HOPS = (1, 2, 4, 8, 16)
PATIENCE = 3_000
"""Ticks of one run that are visited one by one before what was reached is held for the rest."""
HIGHEST = Decimal(60)
GRID = Decimal("1e-13")
"""R is rounded up to a multiple of this along a run, so that it comes to rest."""

Rows = list[list[int]]


class Bounds(NamedTuple):
    """low ≤ P ≤ high, entry by entry, in units of 1/SCALE."""

    low: Rows
    high: Rows

    @classmethod
    def of(cls, tree: dict[str, Any]) -> Bounds:
        """Read two matrices; ValueError where no chain lies between them."""
        low = [[math.floor(Fraction(value) * SCALE) for value in row] for row in tree["low"]]
        high = [[math.ceil(Fraction(value) * SCALE) for value in row] for row in tree["high"]]
        for less, more in zip(low, high, strict=True):
            over, under = max(0, sum(less) - SCALE), max(0, SCALE - sum(more))
            if max(over, under) > ROW_SUM:
                raise ValueError("a row of Θ leaves no probabilities that sum to 1")
            less[:] = [max(0, value - over) for value in less]
            more[:] = [min(SCALE, value + under) for value in more]
        return cls(low, high).tightened()

    def tightened(self) -> Bounds:
        """The same chains, each bound made as tight as the others of its row and a sum of one make it."""
        low = [
            [max(a, SCALE - sum(more) + b) for a, b in zip(less, more, strict=True)]
            for less, more in zip(*self, strict=True)
        ]
        high = [
            [min(b, SCALE - sum(less) + a) for a, b in zip(less, more, strict=True)]
            for less, more in zip(*self, strict=True)
        ]
        return Bounds(low, high)

    def times(self, after: Bounds) -> Bounds:
        """Bounds on P·Q for every P within these and every Q within `after`."""
        size = range(len(self.low))
        low = [
            [extreme_mean(self.low[x], self.high[x], [row[u] for row in after.low], -1) for u in size]
            for x in size
        ]
        high = [
            [extreme_mean(self.low[x], self.high[x], [row[u] for row in after.high], 1) for u in size]
            for x in size
        ]
        return Bounds(low, [[min(SCALE, one) for one in row] for row in high]).tightened()


def extreme_mean(less: Sequence[int], more: Sequence[int], values: Sequence[int], sign: int) -> int:
    """The largest (sign 1) or least (−1) mean of the values under a row within bounds, rounded outwards."""
    free, total = SCALE - sum(less), sum(a * value for a, value in zip(less, values, strict=True))
    for u in sorted(range(len(values)), key=lambda u: -sign * values[u]):
        moved = min(free, more[u] - less[u])
        total, free = total + moved * values[u], free - moved
    return -(-total // SCALE) if sign > 0 else total // SCALE


def _set_sums(values: Sequence[int]) -> list[int]:
    """The sum over every set of states; bit u of a set's number says whether u is in it."""
    sums = [0]
    for value in values:
        sums += [value + one for one in sums]
    return sums


def _corners(power: Bounds) -> list[tuple[Decimal, Decimal]]:
    """The corners (b, a) of the upper left hull of all pairs of rows and all sets."""
    least = [_set_sums(row) for row in power.low]
    most = [_set_sums(row) for row in power.high]
    every = len(least[0]) - 1
    # What a row puts on a set: at most, and at least.
    upper = [
        [min(more[s], SCALE - less[every ^ s]) for s in range(every + 1)]
        for less, more in zip(least, most, strict=True)
    ]
    lower = [
        [max(less[s], SCALE - more[every ^ s]) for s in range(every + 1)]
        for less, more in zip(least, most, strict=True)
    ]
    points: list[tuple[int, int]] = [(0, 0)]
    for x, above in enumerate(upper):
        for y, below in enumerate(lower):
            if x != y:
                points = _hull([*points, *zip(below, above, strict=True)])
    unit = Decimal(SCALE)
    return [(DOWN.divide(Decimal(b), unit), UP.divide(Decimal(a), unit)) for b, a in points]


def _hull(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The corners that are largest in a − λ·b for some λ ≥ 1."""
    kept: list[tuple[int, int]] = []
    for b, a in sorted(points, key=lambda point: (point[0], -point[1])):
        if kept and a - kept[-1][1] <= b - kept[-1][0]:
            continue  # the one before it is larger for all λ ≥ 1
        while len(kept) > 1 and (kept[-1][1] - kept[-2][1]) * (b - kept[-2][0]) <= (a - kept[-2][1]) * (
            kept[-1][0] - kept[-2][0]
        ):
            kept.pop()
        kept.append((b, a))
    return kept


class Side:
    """One side of a tick, for every chain within bounds; the past is a side of the reversed chain."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._powers = {1: bounds}
        # One cache for each side: they end with it.
        self._corners_of = cache(lambda hops: _corners(self._power(hops)))
        self.endless = cache(self._endless)
        self.bound = cache(self._bound)

    def _power(self, hops: int) -> Bounds:
        if hops not in self._powers:
            self._powers[hops] = self._bounds.times(self._power(hops - 1))
        return self._powers[hops]

    def step(self, hops: int, D: Decimal) -> Decimal:
        """What a step of so many ticks proves from D, rounded up."""
        gain = UP.subtract(exp(Interval(D, D)).high, Decimal(1))
        ratio = max(
            UP.divide(UP.fma(gain, a, Decimal(1)), DOWN.fma(gain, b, Decimal(1)))
            for b, a in self._corners_of(hops)
        )
        return ln(exact(ratio)).high if ratio > 1 else Decimal(0)

    def certifies(self, hops: int, tau: Decimal, R: Decimal) -> bool:
        """Whether R bounds the side where every tick is tilted by at most τ: it is kept by a step."""
        skipped = UP.multiply(Decimal(hops - 1), tau)
        return skipped <= R and UP.add(skipped, self.step(hops, UP.add(tau, R))) <= R

    def _endless(self, tau: Decimal) -> Decimal:
        """The least R found that is kept by a step; infinite where there is none."""
        best = Decimal("Infinity")
        for hops in HOPS:
            low = UP.multiply(Decimal(hops - 1), tau)
            high = UP.add(low, max(tau, GRID))
            while not self.certifies(hops, tau, high) and high <= min(best, HIGHEST):
                low, high = high, UP.multiply(high, Decimal(2))
            if high > min(best, HIGHEST):
                continue
            while high - low > high * Decimal("1e-13"):
                middle = UP.multiply(UP.add(low, high), Decimal("0.5"))
                low, high = (low, middle) if self.certifies(hops, tau, middle) else (middle, high)
            best = min(best, high)
        return best

    def _bound(self, stretches: tuple[Stretch, ...]) -> Decimal:
        """R next to these stretches, from the farthest tick inwards."""
        near = [(Decimal(0), Decimal(0))] * max(HOPS)
        for stretch in reversed(stretches):
            tau = stretch.tilts.towards0.high
            rest = self.endless(tau) if tau else Decimal(0)
            for visited in range(stretch.length):
                R = self._next(near)
                settled = visited >= len(near) and all(
                    abs(one - rest) <= Decimal("1e-10") * (1 + rest) for _, one in near
                )
                if settled or visited == PATIENCE:
                    # From what is at least `rest`, no step proves more: its slope is at most 1.
                    R = max(rest, R, *(one for _, one in near))
                    near = [(tau, R)] * len(near)
                    break
                near = [(tau, R), *near[:-1]]
        return self._next(near)

    def _next(self, near: list[tuple[Decimal, Decimal]]) -> Decimal:
        """R one tick nearer: the best of all steps, rounded up to the grid."""
        skipped, best = Decimal(0), UP.add(*near[0])
        for distance, (tau, R) in enumerate(near, start=1):
            if distance in HOPS and skipped < best:
                best = min(best, UP.add(skipped, self.step(distance, min(UP.add(tau, R), HIGHEST * 2))))
            skipped = UP.add(skipped, tau)
        return best.quantize(GRID, context=UP) if best.is_finite() else best
