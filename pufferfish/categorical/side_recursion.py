"""The bounds R along one side of a k-state stream, run by run (pufferfish/categorical/categorical_timeline.py).

Within a run of constant tilt R converges to the certified bound R* of an endless run. Once R is within `SETTLED` of R*,
the remaining ticks are bounded by the larger of the two, because a step from R ≥ R* proves at most R. For the same
reason the R reached after `PATIENCE` ticks bounds the rest of a run that has not converged.
The bounds along a run depend only on its tilt, its length and the nearest ticks outside. They are cached under
these, so that a new entry recomputes few of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from hushmq.pufferfish.categorical.contraction_side import HOPS, ContractionSide, Step
from hushmq.pufferfish.categorical.informed_side import InformedSide
from hushmq.pufferfish.timeline.tilt_runs import to_nats

SETTLED = 1e-8
"""R counts as converged at this distance from R*, relative if R* is large; far above the margin of a certificate."""

PATIENCE = 20_000
"""The largest number of ticks of a run that are visited; the R reached then bounds the rest."""

_GRID = 2.0**40
"""R is rounded up to a multiple of 1/GRID, so that the recursion reaches a fixed point and cache keys are equal."""

_CACHE_SIZE = 100_000
"""The largest number of cached runs."""

_NearestTicks = tuple[tuple[int, float], ...]
"""Tilt and R of the nearest ticks outside, nearest first: no step reaches beyond them."""

_Steps = tuple[tuple[int, Step], ...]
"""Step lengths in ascending order, each with its contraction table."""

_NO_TILTS: _NearestTicks = ((0, 0.0),) * max(HOPS)


Run = tuple[int, int, int]
"""The first tick of a run, its tilt and its length."""

_Shape = tuple[int, int, int]
"""The tilt of a run, its length, and the largest tilt up to there, where it counts."""


@dataclass(frozen=True)
class RunBounds:
    """The bounds along one side of a run: R at its ticks in the order of the recursion, the last for the rest."""

    R: tuple[float, ...]
    after: _NearestTicks
    largest_tilt: int
    """The largest tilt up to there, where it counts."""
    following: dict[_Shape, RunBounds] = field(default_factory=dict, compare=False, repr=False)
    """The bounds along the runs that came next somewhere."""

    @cached_property
    def largest(self) -> float:
        return max(self.R)


class SideRecursion:
    """The recursion for R along one side of a stream, run by run."""

    def __init__(self, side: ContractionSide | InformedSide) -> None:
        self._side: ContractionSide = side.projective if isinstance(side, InformedSide) else side
        self._informed = side if isinstance(side, InformedSide) else None
        self._endless_bounds: dict[int, tuple[_Steps, float]] = {}
        self._cache: dict[tuple[int, int, int, _NearestTicks], RunBounds] = {}

    def along_runs(
        self, pieces: Sequence[Run], earlier: Sequence[RunBounds] = (), first: int = 0, last: int = 0
    ) -> list[RunBounds]:
        """The bounds along each run, from the outermost inwards.

        `earlier` are those of a pass over runs of which the first and the last so many are the same. Where this pass
        comes to the same bounds, the rest of the earlier ones is taken.
        """
        bounds = list(earlier[:first])
        nearest = bounds[-1].after if bounds else _NO_TILTS
        largest = bounds[-1].largest_tilt if bounds else 0
        for place in range(first, len(pieces)):
            _, tilt, length = pieces[place]
            if self._informed is not None:
                largest = max(largest, tilt)
            shape = (tilt, length, largest)
            run_bounds = bounds[-1].following.get(shape) if bounds else None
            if run_bounds is None:
                run_bounds = self._bounds_of(shape, nearest)
                if bounds:
                    bounds[-1].following[shape] = run_bounds
            bounds.append(run_bounds)
            nearest = run_bounds.after
            left = len(pieces) - 1 - place
            if left < last:
                same = earlier[len(earlier) - 1 - left]
                if same.after == nearest and same.largest_tilt == largest:
                    return bounds + list(earlier[len(earlier) - left :])
        return bounds

    def _bounds_of(self, shape: _Shape, nearest: _NearestTicks) -> RunBounds:
        """The bounds along one run, from the cache if they are there."""
        found = self._cache.get((*shape, nearest))
        if found is None:
            if len(self._cache) >= _CACHE_SIZE:
                for one in self._cache.values():
                    one.following.clear()
                self._cache.clear()
            found = self._cache[*shape, nearest] = self._bounds_along(*shape, nearest)
        return found

    def _bounds_along(self, tilt: int, length: int, largest: int, nearest: _NearestTicks) -> RunBounds:
        """The bounds along one run: tick by tick until R has converged."""
        bounds: list[float] = []
        limit = self._limit(largest)
        steps, endless_bound = self._endless_bound(tilt)
        endless_bound = min(endless_bound, limit)
        width, reach, same = SETTLED * (1 + endless_bound), len(nearest), 0
        single = steps[0][1].step if len(steps) == 1 and steps[0][0] == 1 else None
        outside, before, here, R = nearest, to_nats(nearest[0][0]), to_nats(tilt), nearest[0][1]
        while len(bounds) < length:
            if single is not None:
                R, before = min(_rounded(single(before + R)), limit), here
            else:
                R = min(_step(steps, _nearest(tilt, bounds, outside)), limit)
            # A step of h instants starts from the h-th last tick: all of these must have converged.
            if same >= reach or len(bounds) == PATIENCE:
                held = max(endless_bound, R, *(one for _, one in _nearest(tilt, bounds, outside)))
                return RunBounds((*bounds, held), ((tilt, held),) * reach, largest)
            bounds.append(R)
            same = same + 1 if abs(R - endless_bound) <= width else 0
        return RunBounds(tuple(bounds), _nearest(tilt, bounds, outside), largest)

    def _limit(self, largest: int) -> float:
        """What no R exceeds where no tilt does exceed the largest; infinite against the prior adversary."""
        if self._informed is None:
            return math.inf
        return _rounded(self._informed.endless_bound(to_nats(largest))[1]) if largest else 0.0

    def _endless_bound(self, tilt: int) -> tuple[_Steps, float]:
        """The steps used in a run of this tilt, among them the one that certifies R*; and R*."""
        if tilt not in self._endless_bounds:
            hops, R = self._side.endless_bound(to_nats(tilt)) if tilt else (HOPS[0], 0.0)
            steps = {**self._side.useful_tables, hops: self._side.tables[hops]}
            self._endless_bounds[tilt] = tuple(sorted(steps.items())), _rounded(R)
        return self._endless_bounds[tilt]


def _nearest(tilt: int, bounds: list[float], outside: _NearestTicks) -> _NearestTicks:
    """The nearest ticks after some ticks of a run."""
    inside = [(tilt, R) for R in bounds[: -len(outside) - 1 : -1]]
    return (*inside, *outside[: len(outside) - len(inside)])


def _step(steps: _Steps, nearest: _NearestTicks) -> float:
    """R of the tick next to `nearest`."""
    best, skipped, ahead = math.inf, 0, 0
    for hops, step_table in steps:
        while ahead < hops - 1:
            skipped += nearest[ahead][0]
            ahead += 1
        tilt, R = nearest[hops - 1]
        best = min(best, to_nats(skipped) + step_table.step(to_nats(tilt) + R))
    # Skipping the tick costs its tilt and proves nothing else.
    best = min(best, to_nats(nearest[0][0]) + nearest[0][1])
    return _rounded(best)


def _rounded(R: float) -> float:
    return math.ceil(R * _GRID) / _GRID if math.isfinite(R) else R
