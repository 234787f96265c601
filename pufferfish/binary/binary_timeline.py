"""The timeline of a two-state stream: its whole history as one tilt function τ(t), and the loss of that history.

Tilts add: a tick covered by several entries has the sum of their tilts. The price is the largest loss at any tick,
covered or not. For a single chain it exceeds the supremum by rounding errors only (docs/theory.md, Theorems 1, 4 and
7), unless the chain is slow and the adversary informed (pufferfish/binary/slow_chains.py). Under a Θ of several
chains every step may have the kernel of another one (docs/theory-world.md, Theorems 16 and 17), and the price is an
upper bound.

A new entry changes losses only as far as it is remembered (Lemma 1). The timeline therefore keeps its price and what
was found on the way to it, and after an addition searches only what changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from hushmq.pufferfish.adversary import Adversary, check_adversary
from hushmq.pufferfish.binary.binary_spread import odds_spread
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.changing_chain import (
    changing_chains,
    splits_by_state,
    stationary_chains,
)
from hushmq.pufferfish.binary.directed_chain import forgetting_time
from hushmq.pufferfish.binary.one_chain_search import FoundLoss, OneChainSearch
from hushmq.pufferfish.binary.slow_chains import LONGEST_MEMORY, slow_chains
from hushmq.pufferfish.mobius.changing_search import ChangingSearch, SearchedRuns
from hushmq.pufferfish.protocols import Timeline
from hushmq.pufferfish.timeline.entry import Entry, Price, Ticks
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_units
from hushmq.pufferfish.undecided import UndecidedTimeline

_Search = OneChainSearch | ChangingSearch
_Found = FoundLoss | SearchedRuns

# Exceeds the relative error of rounding and of the ticks beyond the forgetting time.
_SLACK = 2.0**-44


class BinaryTimeline:
    """The entries of one stream and audience, priced incrementally.

    `span` is the first and the last tick of the stream. Without it the stream is endless in both directions, and the
    informed adversary may know states before the first entry and after the last. With `ticks` the price is the largest
    loss at these; beyond the entries a loss falls with the distance, so that one tick stands for all that follow.
    """

    def __init__(
        self,
        theta: BinaryTheta,
        adversary: Adversary = "informed",
        entries: Iterable[Entry] = (),
        *,
        span: Ticks | None = None,
        ticks: Ticks | None = None,
    ) -> None:
        check_adversary(adversary)
        if adversary == "undecided":
            raise ValueError(
                "the undecided adversary is priced by `timeline`, around the prior one's timeline"
            )
        self._span, self._ticks = span, ticks
        self._search = _search_of(theta, adversary, endless=span is None)
        pieces = [self._tilt_piece(entry) for entry in entries]
        if span is not None:
            if span[0] > span[1]:
                raise ValueError(f"span is {span}; it must be the first tick and the last, in this order")
            pieces.append((*span, 0, 0))
        if ticks is not None:
            pieces.append((ticks[0], ticks[0], 0, 0))
        runs = self._cut(TiltRuns(pieces))
        self._search = _search_of(theta, adversary, endless=span is None).up_to(runs.tilts)
        self._found: _Found = self._search.searched(runs, ticks)

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

    def _with(self, entry: Entry) -> tuple[_Search, _Found]:
        """The search of the history with the entry, and what it finds."""
        fresh = self._search.fresh(self._found)  # type: ignore[arg-type]  # each search has found its own
        if fresh is not self._search:
            self._search, self._found = fresh, fresh.searched(self._found.runs, self._ticks)
        runs = self._found.runs.copy()
        runs.add(*self._tilt_piece(entry))
        touched = runs.runs_touching(entry.first, entry.last)
        search = self._search.up_to(runs.tilts[touched.start : touched.stop])
        self._cut(runs)
        if search is not self._search:
            return search, search.searched(runs, self._ticks)
        changed = entry.first, entry.last
        return search, search.searched_after(self._found, runs, changed, self._ticks)  # type: ignore[arg-type]

    def _cut(self, runs: TiltRuns) -> TiltRuns:
        """The runs, none of which is priced in part."""
        if self._ticks is not None:
            runs.cut(self._ticks[0])
            runs.cut(self._ticks[1] + 1)
        return runs


def _certified_price(found: _Found) -> Price:
    loss, tick = found.largest
    if loss == 0.0:
        return Price(0.0, tick)
    return Price(loss + found.tolerance + _SLACK * (1.0 + loss), tick)


def _search_of(theta: BinaryTheta, adversary: Adversary, *, endless: bool) -> _Search:
    q, r = theta.q_low, theta.r_low
    if not theta.single:
        for_all_tilts = adversary == "prior" or not splits_by_state(theta)
        return ChangingSearch(partial(changing_chains, theta, adversary), for_all_tilts=for_all_tilts)
    if q + r >= 1.0:
        return OneChainSearch(q, r, adversary, endless=endless)
    if adversary == "prior":
        return ChangingSearch(partial(stationary_chains, q, r), for_all_tilts=True)
    if forgetting_time(q, r) > LONGEST_MEMORY:
        return ChangingSearch(partial(slow_chains, q, r))
    return OneChainSearch(q, r, adversary, endless=endless)


def timeline(
    theta: BinaryTheta,
    adversary: Adversary,
    entries: Iterable[Entry] = (),
    *,
    span: Ticks | None = None,
    ticks: Ticks | None = None,
) -> Timeline:
    """A history under Θ, priced incrementally for any of the adversaries; with `ticks`, at these alone."""
    if adversary != "undecided":
        return BinaryTimeline(theta, adversary, entries, span=span, ticks=ticks)
    entries = list(entries)
    inside = BinaryTimeline(theta, "prior", entries, span=span, ticks=ticks)
    return UndecidedTimeline(inside, odds_spread(theta), entries)


def price(
    entries: Iterable[Entry],
    theta: BinaryTheta,
    adversary: Adversary = "informed",
    *,
    span: tuple[int, int] | None = None,
) -> Price:
    """The price of a history: the largest loss at any tick for the worst chain in Θ."""
    return timeline(theta, adversary, entries, span=span).price()
