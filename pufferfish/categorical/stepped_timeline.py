"""The timeline of a k-state stream where steps of several lengths are used, or without numpy: tick by tick.

The recursion is that of pufferfish/categorical/side_recursion.py.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import add

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import contraction_sides, informed_sides
from hushmq.pufferfish.categorical.hull_side import hull_sides
from hushmq.pufferfish.categorical.side_recursion import Run, RunBounds, SideRecursion
from hushmq.pufferfish.timeline.entry import Entry, Price, Ticks
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_nats, to_units


@dataclass(frozen=True, slots=True)
class _Found:
    """The runs of a history, what bounds both sides along each of them, and their largest loss with its tick."""

    runs: TiltRuns
    pieces: Sequence[Run]
    lefts: Sequence[RunBounds]
    rights: Sequence[RunBounds]
    largest: tuple[float, int | None]

    @property
    def price(self) -> Price:
        loss, tick = self.largest
        return Price(loss * (1 + 2.0**-50), tick)


_NOTHING = _Found(TiltRuns(), (), (), (), (0.0, None))


class SteppedTimeline:
    """A history that is priced as that of `categorical_timeline` is, from tick to tick."""

    def __init__(
        self,
        theta: CategoricalTheta,
        entries: Iterable[Entry] = (),
        *,
        ticks: Ticks | None = None,
        informed: bool = False,
    ) -> None:
        self._left, self._right = map(
            SideRecursion,
            informed_sides(theta) if informed else hull_sides(theta) or contraction_sides(theta),
        )
        self._ticks = ticks
        # A piece without a tilt, so that there are bounds for one of the ticks wherever the entries lie.
        pieces = [] if ticks is None else [(ticks[0], ticks[0], 0, 0)]
        runs = TiltRuns([*pieces, *map(_tilt_piece, entries)])
        self._found = self._searched(runs, list(_merged_runs(runs, range(len(runs.tilts)))))

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
        was = self._found.pieces
        # Two runs on either side of the entry may have grown; beyond them nothing has changed.
        first = max(bisect_left(was, entry.first, key=_first_tick) - 2, 0)
        last = max(len(was) - bisect_right(was, entry.last + 1, key=_first_tick) - 1, 0)
        begin = bisect_left(runs.edges, was[first][0]) if first else 0
        end = bisect_left(runs.edges, was[-last][0]) if last else len(runs.tilts)
        pieces = [*was[:first], *_merged_runs(runs, range(begin, end)), *was[len(was) - last :]]
        return self._searched(runs, pieces, self._found, (first, last))

    def _searched(
        self,
        runs: TiltRuns,
        pieces: Sequence[Run],
        earlier: _Found | None = None,
        same: tuple[int, int] = (0, 0),
    ) -> _Found:
        """The bounds of all runs and their largest loss. No tilt is less than it was earlier.

        `same`: so many runs at the beginning and at the end are as they were.
        """
        was, window, worst, tick = _NOTHING if earlier is None else earlier, range(len(pieces)), 0.0, None
        first, last = same
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
        seen: set[tuple[int, int, int, int]] = set()
        for place in window:
            (first_tick, tilt, length), left, right = pieces[place], lefts[place], rights[place]
            tau = to_nats(tilt)
            if tau + left.largest + right.largest <= worst:
                continue
            low, high = self._offsets(first_tick, length)
            if (high - low + 1) == length:
                alike = id(left), id(right), tilt, length
                if alike in seen:
                    continue  # a run with the same bounds has the same losses
                seen.add(alike)
            for begin, end in _moving_ticks(left.R, right.R, length, low, high):
                before = _held(left.R, begin, end)
                after = _held(right.R, length - end, length - begin)[::-1]
                sums = list(map(add, before, after))
                if tau + (most := max(sums)) > worst:
                    worst, tick = tau + most, first_tick + begin + sums.index(most)
        return _Found(runs, pieces, lefts, rights, (worst, tick))

    def _offsets(self, first: int, length: int) -> tuple[int, int]:
        """The first and the last offset in a run whose losses count."""
        if self._ticks is None:
            return 0, length - 1
        return max(0, self._ticks[0] - first), min(length - 1, self._ticks[1] - first)


def _first_tick(run: Run) -> int:
    return run[0]


def _merged_runs(runs: TiltRuns, places: range) -> Iterator[Run]:
    """First tick, tilt and length of each of some runs; adjacent runs of equal tilt are merged."""
    first, tilt, length = 0, -1, 0
    edges = runs.edges[places.start : places.stop + 1]
    for start, end, (here, _) in zip(edges, edges[1:], runs.tilts[places.start : places.stop], strict=False):
        if here == tilt:
            length += end - start
            continue
        if length:
            yield first, tilt, length
        first, tilt, length = start, here, end - start
    if length:
        yield first, tilt, length


def _moving_ticks(
    left: Sequence[float], right: Sequence[float], length: int, low: int, high: int
) -> Iterator[tuple[int, int]]:
    """The offsets from low to high at which either side's bound may still change, as ranges with the low and the high.

    Between them both are constant.
    """
    moved = min(len(left), length)
    for begin, end in (
        (0, moved),
        (max(moved, length - len(right)), length),
        (low, low + 1),
        (high, high + 1),
    ):
        if max(begin, low) < min(end, high + 1):
            yield max(begin, low), min(end, high + 1)


def _held(R: tuple[float, ...], begin: int, end: int) -> tuple[float, ...]:
    """The bounds at some offsets, of which the last holds for all that follow."""
    return R[begin:end] + (R[-1],) * (end - max(begin, len(R)))


def _tilt_piece(entry: Entry) -> tuple[int, int, int, int]:
    return entry.first, entry.last, to_units(max(entry.tau0, entry.tau1)), 0
