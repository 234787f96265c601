"""One side of a stream for every chain of a categorical Θ: the steps of all lengths, and what they certify.

A step of h instants from D certifies the least R with c(λ)·(e^D − 1) ≤ λ − 1, λ = e^R (docs/theory-k.md, Theorem 8);
pufferfish/categorical/set_excess.py bounds c for rows within intervals.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property, partial
from itertools import permutations
from typing import Protocol

from hushmq.pufferfish.bisection import bisection
from hushmq.pufferfish.categorical.set_excess import largest_set_excess
from hushmq.pufferfish.categorical.transition_intervals import Row, TransitionIntervals

HOPS = (1, 2, 4, 8, 16)
"""The lengths h of a step, in instants."""

HIGHEST = 30.0
"""The largest R that is searched for; beyond it, rounding errors dominate e^R."""

_GRID = [0.0, *(1e-7 * 1.06**n for n in range(1000) if 1e-7 * 1.06**n < math.exp(HIGHEST))]
"""The values of λ − 1 at which c is tabulated; c is convex, so between two of them it lies below their chord."""

_STRIDE = 64
"""Grid points between two evaluations of all pairs of states."""

_ROUNDING = 2.0**-48

CERTIFICATE_MARGIN = 1e-9
"""Relative margin added to a certificate's R, so that it verifies under another machine's rounding."""


def pairs(intervals: TransitionIntervals) -> list[tuple[tuple[Row, Row], tuple[Row, Row]]]:
    """The bounds on the rows of every ordered pair of states."""
    rows = list(zip(intervals.low, intervals.high, strict=True))
    return list(permutations(rows, 2))


class Step(Protocol):
    """A step of some length."""

    @abstractmethod
    def step(self, D: float) -> float:
        """The R that it certifies from D, at most D."""


class ContractionTable:
    """Upper bounds on c(λ) of one interval matrix at the points of a grid of λ, computed on first use."""

    def __init__(self, intervals: TransitionIntervals) -> None:
        self._pairs = pairs(intervals)
        self._bounds: list[list[float]] = []
        self._known: dict[int, float] = {}

    def _c(self, place: int) -> float:
        """Upper bound on c(1 + _GRID[place]); it does not depend on the order of queries."""
        if place not in self._known:
            self._known[place] = max(self._refined(self._bounds_at(place // _STRIDE), place))
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
        gain = math.expm1(D)
        place = bisect_left(
            range(len(_GRID)), True, key=partial(self._satisfied, gain)
        )  # False … False True … True: the gap grows and c falls
        if place == len(_GRID):
            # Beyond the grid c is at most its last value.
            return min(D, math.log1p(self._c(place - 1) * gain) * (1 + _ROUNDING))
        gap, c = _GRID[place], self._c(place)
        if place > 0:
            # On the chord c0 + s·(gap − gap0): the least gap with c·gain ≤ gap.
            gap0, c0 = _GRID[place - 1], self._c(place - 1)
            fall = (c0 - c) / (gap - gap0)
            gap = min(gap, gain * (c0 + fall * gap0) / (1.0 + gain * fall) * (1 + _ROUNDING))
        return min(D, math.log1p(gap) * (1 + _ROUNDING))

    def _satisfied(self, gain: float, place: int) -> bool:
        return self._c(place) * gain <= _GRID[place]


class ContractionSide:
    """One side of a stream: the steps of all lengths, and the R of endless constant tilts."""

    def __init__(self, intervals: TransitionIntervals) -> None:
        self._intervals = intervals

    @cached_property
    def tables(self) -> Mapping[int, Step]:
        """The contraction of each step, by its length."""
        return {hops: ContractionTable(self._intervals.power(hops)) for hops in HOPS}

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
            if math.isinf(least) or ((hops - 1) * tau < least and _certifies(table, hops, tau, least)):
                R = _least_certified(table, hops, tau)
                best, least = (hops, R) if least > R else (best, least)
        return best, least * (1 + CERTIFICATE_MARGIN)


def _certifies(table: Step, hops: int, tau: float, R: float) -> bool:
    """Whether (h−1)·τ + step(τ + R) ≤ R."""
    return (hops - 1) * tau + table.step(tau + R) <= R


def _least_certified(table: Step, hops: int, tau: float) -> float:
    """The least certified R, by bisection: a step's bound grows more slowly than D."""
    skipped = (hops - 1) * tau
    # For large R rounding errors hide a certificate, so the bracket is searched from below.
    low, high = skipped, skipped + tau
    while not _certifies(table, hops, tau, high):
        low, high = high, skipped + 2 * (high - skipped)
        if high > HIGHEST:
            return math.inf
    _, high = bisection(lambda R: not _certifies(table, hops, tau, R), low, high, relative=1e-12)
    return high
