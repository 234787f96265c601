"""One side of a stream for every chain of a categorical Θ: the steps of all lengths, and what they certify.

A step of h instants from D certifies the least R with c(λ)·(e^D − 1) ≤ λ − 1, λ = e^R (docs/theory-k.md, Theorem 8);
pufferfish/categorical/set_excess.py bounds c for rows within intervals.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import permutations
from types import ModuleType
from typing import Any, Protocol

from hushmq.pufferfish.bisection import bisection
from hushmq.pufferfish.categorical.set_excess import largest_set_excess
from hushmq.pufferfish.categorical.set_excesses import SetExcesses
from hushmq.pufferfish.categorical.transition_intervals import Row, TransitionIntervals
from hushmq.pufferfish.optional_numpy import numpy_if_installed

HOPS = (1, 2, 4, 8, 16)
"""The lengths h of a step, in instants."""

HIGHEST = 30.0
"""The largest R that is searched for; beyond it, rounding errors dominate e^R."""

_GRID = [0.0, *(1e-7 * 1.06**n for n in range(1000) if 1e-7 * 1.06**n < math.exp(HIGHEST))]
"""The values of λ − 1 at which c is tabulated; c is convex, so between two of them it lies below their chord."""

_STRIDE = 64
"""Grid points between two evaluations of all pairs of states."""

_MANY_PAIRS = 24
"""With more pairs of states it is worth another evaluation to leave more of them out."""

_ROUNDING = 2.0**-48

_SECANTS = 6
"""Of a function that is nearly straight."""

CERTIFICATE_MARGIN = 1e-9
"""Relative margin added to a certificate's R, so that it verifies under another machine's rounding."""


Pair = tuple[tuple[Row, Row], tuple[Row, Row]]
"""The lower and the upper bounds on the rows of two states."""


def pairs(intervals: TransitionIntervals) -> list[Pair]:
    """The bounds on the rows of every ordered pair of states."""
    rows = list(zip(intervals.low, intervals.high, strict=True))
    return list(permutations(rows, 2))


class Step(Protocol):
    """A step of some length."""

    @abstractmethod
    def step(self, D: float) -> float:
        """The R that it certifies from D, at most D."""

    def exceeds(self, D: float, R: float) -> bool:
        """Whether it certifies no such R from D; where that is a quick test, it may miss it."""
        return self.step(D) > R


class _Likely:
    """Upper bounds on c of all pairs at once, with the weights that are best for a λ not far from the one asked for."""

    def __init__(self, np: ModuleType, rows: Sequence[Pair]) -> None:
        self._np, self._excesses = np, SetExcesses(np, rows)
        self._known: dict[int, tuple[Any, Any, Any]] = {}

    def bounds_at(self, place: int) -> list[float]:
        """The bounds at a point of the grid, from the two points next to it of every `_STRIDE`-th.

        c falls and is convex: it is no larger than at the point before, and lies below the chord to the point after.
        """
        number = place // _STRIDE
        (theta, phi, before), (*others, after) = self._at_stride(number), self._at_stride(number + 1)
        begun, ended = _GRID[number * _STRIDE], _GRID[min((number + 1) * _STRIDE, len(_GRID) - 1)]
        along = (_GRID[place] - begun) / (ended - begun) if ended > begun else 0.0
        chord = (before + along * (after - before)) * (1.0 + _ROUNDING)
        found = self._np.minimum(self._excesses.at(1.0 + _GRID[place], theta, phi), chord)
        if len(before) > _MANY_PAIRS:
            found = self._np.minimum(found, self._excesses.at(1.0 + _GRID[place], *others))
        bounds: list[float] = found.tolist()
        return bounds

    def _at_stride(self, number: int) -> tuple[Any, Any, Any]:
        """The best weights at one of every `_STRIDE` points, and the bounds there."""
        if number not in self._known:
            lam = 1.0 + _GRID[min(number * _STRIDE, len(_GRID) - 1)]
            theta, phi = self._excesses.best_weights(lam)
            self._known[number] = theta, phi, self._excesses.at(lam, theta, phi)
        return self._known[number]


class ContractionTable(Step):
    """Upper bounds on c(λ) of one interval matrix at the points of a grid of λ, computed on first use."""

    def __init__(self, intervals: TransitionIntervals) -> None:
        self._pairs = pairs(intervals)
        self._bounds: list[list[float]] = []
        self._known: dict[int, float] = {}
        self._last = len(_GRID) // 3
        np = numpy_if_installed()
        self._likely = None if np is None else _Likely(np, self._pairs)

    def _c(self, place: int) -> float:
        """Upper bound on c(1 + _GRID[place]); it does not depend on the order of queries."""
        if place not in self._known:
            before = self._likely.bounds_at(place) if self._likely else self._bounds_at(place // _STRIDE)
            self._known[place] = max(self._refined(before, place))
        return self._known[place]

    def _bounds_at(self, number: int) -> list[float]:
        """Upper bounds on c of every pair, valid from grid point `number`·_STRIDE on."""
        while len(self._bounds) <= number:
            before = self._bounds[-1] if self._bounds else [math.inf] * len(self._pairs)
            self._bounds.append(self._refined(before, len(self._bounds) * _STRIDE))
        return self._bounds[number]

    def _refined(self, bounds: list[float], place: int) -> list[float]:
        """Bounds at this grid point from bounds at an earlier one: c falls in λ, so only the largest are recomputed."""
        refined, best = list(bounds), 0.0
        for n in sorted(range(len(bounds)), key=bounds.__getitem__, reverse=True):
            if bounds[n] <= best:
                break
            refined[n] = min(bounds[n], largest_set_excess(*self._pairs[n], 1.0 + _GRID[place]))
            best = max(best, refined[n])
        return refined

    def step(self, D: float) -> float:
        """The R that one step of this length certifies from D, at most D."""
        if D <= 0.0:
            return 0.0
        if D > 2 * HIGHEST:
            return D
        gain, place = math.expm1(D), self._last
        c, c0 = self._known.get(place), self._known.get(place - 1)
        # Steps in a row are near to each other: mostly they end at the same place of the grid.
        if c is None or c0 is None or c * gain > _GRID[place] or c0 * gain <= _GRID[place - 1]:
            place = self._first_satisfied(gain)
            if place == len(_GRID):
                # Beyond the grid c is at most its last value.
                return min(D, math.log1p(self._c(place - 1) * gain) * (1 + _ROUNDING))
            c, c0 = self._c(place), self._c(place - 1) if place else None
        gap = _GRID[place]
        if c0 is not None:
            # On the chord c0 + s·(gap − gap0): the least gap with c·gain ≤ gap.
            gap0 = _GRID[place - 1]
            fall = (c0 - c) / (gap - gap0)
            gap = min(gap, gain * (c0 + fall * gap0) / (1.0 + gain * fall) * (1 + _ROUNDING))
        return min(D, math.log1p(gap) * (1 + _ROUNDING))

    def exceeds(self, D: float, R: float) -> bool:
        """Whether it certifies no such R from D: where c·(e^D − 1) > λ − 1 at the next point of the grid above R."""
        if not 0.0 < R < D <= 2 * HIGHEST:
            return False
        place = bisect_left(_GRID, math.expm1(R))
        return place < len(_GRID) and self._c(place) * math.expm1(D) > _GRID[place]

    def _first_satisfied(self, gain: float) -> int:
        """The first point of the grid with c·gain ≤ λ − 1, or its length: the gap grows and c falls.

        The search begins where the last one ended.
        """
        high, reach = self._last, 1
        while high < len(_GRID) and self._c(high) * gain > _GRID[high]:
            high, reach = min(high + reach, len(_GRID)), 2 * reach
        low, reach = min(high, self._last) - 1, 1
        while low >= 0 and self._c(low) * gain <= _GRID[low]:
            high, low, reach = low, max(low - reach, -1), 2 * reach
        while high - low > 1:
            middle = (low + high) // 2
            if self._c(middle) * gain <= _GRID[middle]:
                high = middle
            else:
                low = middle
        self._last = high
        return high


def powers(intervals: TransitionIntervals) -> Iterator[tuple[int, TransitionIntervals]]:
    """The powers of the step lengths."""
    power, hops = intervals.tightened(), 1
    for wanted in HOPS:
        while hops < wanted:
            power, hops = intervals.times(power), hops + 1
        yield hops, power


class ContractionSide:
    """One side of a stream: the steps of all lengths, and the R of endless constant tilts."""

    def __init__(self, intervals: TransitionIntervals) -> None:
        self._intervals = intervals

    @cached_property
    def tables(self) -> Mapping[int, Step]:
        """The contraction of each step, by its length."""
        return {hops: ContractionTable(power) for hops, power in powers(self._intervals)}

    @cached_property
    def useful_tables(self) -> dict[int, Step]:
        """The same without the lengths that are never the best."""
        best = {self.endless_bound(tau)[0] for tau in (1e-3, 1e-2, 0.1, 0.5, 2.0)}
        return {hops: table for hops, table in self.tables.items() if hops in best}

    def endless_bound(self, tau: float) -> tuple[int, float]:
        """The best step length and the R it certifies for an endless constant tilt; infinite if none does."""
        best, least = HOPS[0], math.inf
        for hops, table in self.tables.items():
            # Skip a length that does not certify the best R so far.
            skipped = (hops - 1) * tau
            if math.isinf(least) or (
                skipped < least
                and not table.exceeds(tau + least, least - skipped)
                and _certifies(table, hops, tau, least)
            ):
                R = _least_certified(table, hops, tau)
                best, least = (hops, R) if least > R else (best, least)
        return best, least * (1 + CERTIFICATE_MARGIN)


def _certifies(table: Step, hops: int, tau: float, R: float) -> bool:
    """Whether (h−1)·τ + step(τ + R) ≤ R."""
    return _excess_over(table, hops, tau, R) <= 0.0


def _excess_over(table: Step, hops: int, tau: float, R: float) -> float:
    """(h−1)·τ + step(τ + R) − R."""
    return (hops - 1) * tau + table.step(tau + R) - R


def _least_certified(table: Step, hops: int, tau: float) -> float:
    """The least certified R: a step's bound grows more slowly than D."""
    skipped = (hops - 1) * tau
    # For large R rounding errors hide a certificate, so the bracket is searched from below.
    low, high = skipped, skipped + tau
    above = tau
    while (below := _excess_over(table, hops, tau, high)) > 0.0:
        above, low, high = below, high, skipped + 2 * (high - skipped)
        if high > HIGHEST:
            return math.inf
    # A step to another place takes long: a few secants lead to the right one, and halving goes on from there.
    for _ in range(_SECANTS):
        R = low + (high - low) * min(max(above / (above - below), 0.01), 0.99)
        excess = _excess_over(table, hops, tau, R)
        low, above, high, below = (R, excess, high, below) if excess > 0.0 else (low, above, R, excess)
    _, high = bisection(lambda R: not _certifies(table, hops, tau, R), low, high, relative=1e-12)
    return high
