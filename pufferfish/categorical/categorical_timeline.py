"""The timeline of a k-state stream for a categorical Θ: a tilt for every tick, and its largest loss.

Let R_t bound the log-ratio that the ticks after t give about the state at t, one number for all pairs of states. With
R = 0 after the last tilt,

    R_t = min_h [ τ_{t+1} + … + τ_{t+h−1} + step_h(τ_{t+h} + R_{t+h}) ],

where step_h is the step of h instants of `contraction`; L_t is the same for the ticks before t, with the time
reversals. No mechanism with these tilts, adaptive or not, has a loss at tick t above τ_t + L_t + R_t for any chain of
Θ, against the *prior* adversary (docs/theory-k.md, Theorem 8). Against the *informed* one the steps are projective, and
no R exceeds that of an endless stream of the largest tilt up to there (pufferfish/categorical/informed_side.py).

Within a run of constant tilt R converges to the certified bound R* of an endless run. Once R is within `SETTLED` of R*,
the remaining ticks are bounded by the larger of the two, because a step from R ≥ R* proves at most R. For the same
reason the R reached after `PATIENCE` ticks bounds the rest of a run that has not converged.
The bounds along a run depend only on its tilt, its length and the nearest ticks outside. They are cached under
these, so that a new entry recomputes few of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import contraction_sides, informed_sides
from hushmq.pufferfish.categorical.contraction_side import HOPS, ContractionSide, Step
from hushmq.pufferfish.categorical.informed_side import InformedSide
from hushmq.pufferfish.timeline.entry import Entry, Price, Ticks
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_nats, to_units

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


_Run = tuple[int, int, int]
"""The first tick of a run, its tilt and its length."""


@dataclass(frozen=True)
class _RunBounds:
    """The bounds along one side of a run: R at its ticks in the order of the recursion, the last for the rest."""

    R: tuple[float, ...]
    after: _NearestTicks
    largest_tilt: int
    """The largest tilt up to there, where it counts."""

    @cached_property
    def largest(self) -> float:
        return max(self.R)


class _SideRecursion:
    """The recursion for R along one side of a stream, run by run."""

    def __init__(self, side: ContractionSide | InformedSide) -> None:
        self._side = side.projective if isinstance(side, InformedSide) else side
        self._informed = side if isinstance(side, InformedSide) else None
        self._endless_bounds: dict[int, tuple[_Steps, float]] = {}
        self._cache: dict[tuple[int, int, int, _NearestTicks], _RunBounds] = {}

    def along_runs(
        self, pieces: Sequence[_Run], earlier: Sequence[_RunBounds] = (), first: int = 0, last: int = 0
    ) -> list[_RunBounds]:
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
            key = (tilt, length, largest, nearest)
            run_bounds = self._cache.get(key)
            if run_bounds is None:
                if len(self._cache) >= _CACHE_SIZE:
                    self._cache.clear()
                run_bounds = self._cache[key] = self._bounds_along(tilt, length, largest, nearest)
            bounds.append(run_bounds)
            nearest = run_bounds.after
            left = len(pieces) - 1 - place
            if left < last:
                same = earlier[len(earlier) - 1 - left]
                if same.after == nearest and same.largest_tilt == largest:
                    return bounds + list(earlier[len(earlier) - left :])
        return bounds

    def _bounds_along(self, tilt: int, length: int, largest: int, nearest: _NearestTicks) -> _RunBounds:
        """The bounds along one run: tick by tick until R has converged."""
        bounds: list[float] = []
        limit = self._limit(largest)
        steps, endless_bound = self._endless_bound(tilt)
        endless_bound = min(endless_bound, limit)
        while len(bounds) < length:
            R = min(_step(steps, nearest), limit)
            # A step of h instants starts from the h-th last tick: all of these must have converged.
            settled = len(bounds) >= len(nearest) and all(
                abs(one - endless_bound) <= SETTLED * (1 + endless_bound) for _, one in nearest
            )
            if settled or len(bounds) == PATIENCE:
                held = max(endless_bound, R, *(one for _, one in nearest))
                return _RunBounds((*bounds, held), ((tilt, held),) * len(nearest), largest)
            bounds.append(R)
            nearest = ((tilt, R), *nearest[:-1])
        return _RunBounds(tuple(bounds), nearest, largest)

    def _limit(self, largest: int) -> float:
        """What no R exceeds where no tilt does exceed the largest; infinite against the prior adversary."""
        if self._informed is None:
            return math.inf
        return _rounded(self._informed.endless_bound(to_nats(largest))[1]) if largest else 0.0

    def _endless_bound(self, tilt: int) -> tuple[_Steps, float]:
        """The steps used in a run of this tilt, among them the one that certifies R*; and R*."""
        if tilt not in self._endless_bounds:
            hops, R = self._side.endless_bound(to_nats(tilt)) if tilt else (HOPS[0], 0.0)
            steps = self._side.useful_tables | {hops: self._side.tables[hops]}
            self._endless_bounds[tilt] = tuple(sorted(steps.items())), _rounded(R)
        return self._endless_bounds[tilt]


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


@dataclass(frozen=True, slots=True)
class _Found:
    """The runs of a history, what bounds both sides along each of them, and their largest loss with its tick."""

    runs: TiltRuns
    pieces: Sequence[_Run]
    lefts: Sequence[_RunBounds]
    rights: Sequence[_RunBounds]
    largest: tuple[float, int | None]

    @property
    def price(self) -> Price:
        loss, tick = self.largest
        return Price(loss * (1 + 2.0**-50), tick)


_NOTHING = _Found(TiltRuns(), (), (), (), (0.0, None))


class CategoricalTimeline:
    """The entries of one stream and audience, priced incrementally for the worst chain of Θ.

    With `ticks` the price is the largest loss at these.
    """

    def __init__(
        self,
        theta: CategoricalTheta,
        entries: Iterable[Entry] = (),
        *,
        ticks: Ticks | None = None,
        informed: bool = False,
    ) -> None:
        sides = informed_sides(theta) if informed else contraction_sides(theta)
        self._left, self._right = map(_SideRecursion, sides)
        self._ticks = ticks
        # A piece without a tilt, so that there are bounds for one of the ticks wherever the entries lie.
        pieces = [] if ticks is None else [(ticks[0], ticks[0], 0, 0)]
        self._found = self._searched(TiltRuns([*pieces, *map(_tilt_piece, entries)]))

    def add(self, entry: Entry) -> None:
        """Adds an entry to the history."""
        self._found = self._with(entry)

    def price(self) -> Price:
        """The price of the history."""
        return self._found.price

    def price_with(self, entry: Entry) -> Price:
        """The price if the entry were added; the timeline does not change."""
        return self._with(entry).price

    def _with(self, entry: Entry) -> _Found:
        runs = self._found.runs.copy()
        runs.add(*_tilt_piece(entry))
        return self._searched(runs, self._found)

    def _searched(self, runs: TiltRuns, earlier: _Found | None = None) -> _Found:
        """The bounds of all runs and their largest loss. No tilt is less than it was earlier."""
        pieces = list(_merged_runs(runs))
        was, window, worst, tick = _NOTHING if earlier is None else earlier, range(len(pieces)), 0.0, None
        first, last = _same_ends(was.pieces, pieces)
        lefts = self._left.along_runs(pieces, was.lefts, first, last)
        rights = self._right.along_runs(pieces[::-1], was.rights[::-1], last, first)[::-1]
        if earlier is not None:
            # Elsewhere no bound has changed.
            (worst, tick), moved = earlier.largest, len(pieces) - len(was.pieces)
            begin, end = 0, len(pieces)
            while begin < first and rights[begin] is was.rights[begin]:
                begin += 1
            while len(pieces) - end < last and lefts[end - 1] is was.lefts[end - 1 - moved]:
                end -= 1
            if tick is None or any(0 <= tick - one[0] < one[2] for one in pieces[begin:end]):
                worst, tick = (
                    0.0,
                    None,
                )  # what was the largest may be less, as far as convergence is a matter of degree
            else:
                window = range(begin, end)
        for place in window:
            (first_tick, tilt, length), left, right = pieces[place], lefts[place], rights[place]
            if to_nats(tilt) + left.largest + right.largest <= worst:
                continue
            for offset in self._offsets(first_tick, length, left.R, right.R):
                before = left.R[min(offset, len(left.R) - 1)]
                after = right.R[min(length - 1 - offset, len(right.R) - 1)]
                loss = to_nats(tilt) + before + after
                if loss > worst:
                    worst, tick = loss, first_tick + offset
        return _Found(runs, pieces, lefts, rights, (worst, tick))

    def _offsets(
        self, first: int, length: int, left: Sequence[float], right: Sequence[float]
    ) -> Iterable[int]:
        """The offsets at which a run's loss must be computed: the others have the bounds of one of these."""
        if self._ticks is None:
            yield from _moving_ticks(left, right, length)
            return
        low, high = max(0, self._ticks[0] - first), min(length - 1, self._ticks[1] - first)
        if low <= high:
            yield from (low, high)
            yield from (offset for offset in _moving_ticks(left, right, length) if low <= offset <= high)


def _rounded(R: float) -> float:
    return math.ceil(R * _GRID) / _GRID if math.isfinite(R) else R


def _same_ends(one: Sequence[_Run], other: Sequence[_Run]) -> tuple[int, int]:
    """How many runs at the beginning and at the end are the same."""
    most = min(len(one), len(other))
    first = next((n for n in range(most) if one[n] != other[n]), most)
    last = next((n for n in range(most - first) if one[-1 - n] != other[-1 - n]), most - first)
    return first, last


def _merged_runs(runs: TiltRuns) -> Iterable[_Run]:
    """First tick, tilt and length of each run; adjacent runs of equal tilt are merged."""
    first, tilt, length = 0, -1, 0
    for start, end, (here, _) in zip(runs.edges, runs.edges[1:], runs.tilts, strict=False):
        if here == tilt:
            length += end - start
            continue
        if length:
            yield first, tilt, length
        first, tilt, length = start, here, end - start
    if length:
        yield first, tilt, length


def _moving_ticks(left: Sequence[float], right: Sequence[float], length: int) -> Iterable[int]:
    """The offsets in a run at which either side's bound may still change; between them both are constant."""
    yield from range(min(len(left), length))
    yield from range(max(min(len(left), length), length - len(right)), length)


def _tilt_piece(entry: Entry) -> tuple[int, int, int, int]:
    return entry.first, entry.last, to_units(max(entry.tau0, entry.tau1)), 0
