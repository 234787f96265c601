"""A history priced by a search for its largest loss, which after an addition looks only at what changes.

A new entry changes losses only as far as it is remembered (docs/theory.md, Lemma 1). The timeline therefore keeps its
price and what was found on the way to it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Generic, Protocol, Self, TypeVar

from hushmq.pufferfish.timeline.entry import Entry, LossAtTick, Price, Ticks
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_units

# Exceeds the relative error of rounding and of the ticks beyond the forgetting time.
_SLACK = 2.0**-44


class Found(Protocol):
    """The runs of a timeline and their largest loss."""

    @property
    def runs(self) -> TiltRuns:
        """The runs."""

    @property
    def largest(self) -> LossAtTick:
        """The largest loss that was found."""

    @property
    def tolerance(self) -> float:
        """By how much a loss may exceed it."""


FoundT = TypeVar("FoundT", bound=Found)


class Search(Protocol[FoundT]):
    """A search for the largest loss of runs whose tilts are no larger than those it was made for."""

    @abstractmethod
    def up_to(self, tilts: Iterable[tuple[int, int]]) -> Self:
        """The search for a timeline with these tilts too."""

    @abstractmethod
    def fresh(self, found: FoundT) -> Self:
        """The same search; another one, if this one remembers much that is not in use."""

    @abstractmethod
    def searched(self, runs: TiltRuns, ticks: Ticks | None = None) -> FoundT:
        """All of the runs; with `ticks` their largest loss at these."""

    @abstractmethod
    def searched_after(
        self, earlier: FoundT, runs: TiltRuns, changed: Ticks, ticks: Ticks | None = None
    ) -> FoundT:
        """The same, where the runs have larger tilts than earlier ones at the changed ticks, and at no others.

        The earlier ones may have been searched before `up_to` made another search of that one.
        """


class SearchedTimeline(Generic[FoundT]):
    """The entries of one stream and audience, priced incrementally.

    `span` is the first and the last tick of the stream. Without it the stream is endless in both directions, and the
    informed adversary may know states before the first entry and after the last. With `ticks` the price is the largest
    loss at these; beyond the entries a loss falls with the distance, so that one tick stands for all that follow.
    """

    def __init__(
        self,
        search: Search[FoundT],
        entries: Iterable[Entry] = (),
        *,
        span: Ticks | None = None,
        ticks: Ticks | None = None,
    ) -> None:
        self._span, self._ticks = span, ticks
        pieces = [self._tilt_piece(entry) for entry in entries]
        if span is not None:
            if span[0] > span[1]:
                raise ValueError(f"span is {span}; it must be the first tick and the last, in this order")
            pieces.append((*span, 0, 0))
        if ticks is not None:
            pieces.append((ticks[0], ticks[0], 0, 0))
        runs = self._cut(TiltRuns(pieces))
        self._search = search.up_to(runs.tilts)
        self._found = self._search.searched(runs, ticks)

    def add(self, entry: Entry) -> None:
        """Adds an entry to the history; ValueError if it lies outside the span."""
        self._search, self._found = self._with(entry)

    def price(self) -> Price:
        """The price of the history."""
        return _certified_price(self._found)

    def price_with(self, entry: Entry) -> Price:
        """The price if the entry were added; the timeline does not change."""
        return _certified_price(self._with(entry)[1])

    def _tilt_piece(self, entry: Entry) -> tuple[int, int, int, int]:
        if self._span is not None and not (self._span[0] <= entry.first and entry.last <= self._span[1]):
            raise ValueError(
                f"the entry is for ticks {entry.first} to {entry.last}; "
                f"the stream has only ticks {self._span[0]} to {self._span[1]}"
            )
        return entry.first, entry.last, to_units(entry.tau0), to_units(entry.tau1)

    def _with(self, entry: Entry) -> tuple[Search[FoundT], FoundT]:
        """The search of the history with the entry, and what it finds."""
        fresh = self._search.fresh(self._found)
        if fresh is not self._search:
            self._search, self._found = fresh, fresh.searched(self._found.runs, self._ticks)
        runs = self._found.runs.copy()
        runs.add(*self._tilt_piece(entry))
        touched = runs.runs_touching(entry.first, entry.last)
        search = self._search.up_to(runs.tilts[touched.start : touched.stop])
        self._cut(runs)
        return search, search.searched_after(self._found, runs, (entry.first, entry.last), self._ticks)

    def _cut(self, runs: TiltRuns) -> TiltRuns:
        """The runs, none of which is priced in part."""
        if self._ticks is not None:
            runs.cut(self._ticks[0])
            runs.cut(self._ticks[1] + 1)
        return runs


def _certified_price(found: Found) -> Price:
    loss, tick = found.largest
    if loss == 0.0:
        return Price(0.0, tick)
    return Price(loss + found.tolerance + _SLACK * (1.0 + loss), tick)
