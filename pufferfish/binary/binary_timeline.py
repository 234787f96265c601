"""The timeline of a two-state stream: its whole history as one tilt function τ(t), and the loss of that history.

Tilts add: a tick covered by several entries has the sum of their tilts. The price is the largest loss at any tick,
covered or not. For a single chain it exceeds the supremum by rounding errors only (docs/theory.md, Theorems 1, 4 and
7), unless the chain is slow and the adversary informed (pufferfish/binary/slow_chain_search.py). Under a Θ of several
chains every step may have the kernel of another one (docs/theory-world.md, Theorems 16 and 17), and the price is an
upper bound.

A new entry changes losses only within the forgetting time of its ticks (Lemma 1). The timeline therefore stores its
price and, after an addition, searches those ticks only.
"""

from __future__ import annotations

from collections.abc import Iterable

from hushmq.pufferfish.adversary import Adversary, check_adversary
from hushmq.pufferfish.binary.binary_spread import odds_spread
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.changing_search import ChangingSearch
from hushmq.pufferfish.binary.directed_chain import forgetting_time
from hushmq.pufferfish.binary.one_chain_search import OneChainSearch
from hushmq.pufferfish.binary.prior_search import NO_LOSS, LossAtTick
from hushmq.pufferfish.binary.slow_chain_search import LONGEST_MEMORY, SlowChainSearch
from hushmq.pufferfish.protocols import Timeline
from hushmq.pufferfish.timeline.entry import Entry, Price, Ticks
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_units
from hushmq.pufferfish.undecided import UndecidedTimeline

_Search = OneChainSearch | SlowChainSearch | ChangingSearch

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
        self._runs = TiltRuns(pieces)
        self._largest_loss: LossAtTick = NO_LOSS
        if self._runs.tilts:
            self._search = self._search.up_to(self._runs.tilts)
            self._largest_loss = self._largest_loss_overall(self._search, self._runs)

    def add(self, entry: Entry) -> None:
        """Adds an entry to the history; ValueError if it lies outside the span."""
        self._runs, self._search, self._largest_loss = self._with(entry)

    def price(self) -> Price:
        """The price of the history."""
        return self._certified_price(self._largest_loss)

    def price_with(self, entry: Entry) -> Price:
        """The price if the entry were added; the timeline does not change."""
        return self._certified_price(self._with(entry)[2])

    def _certified_price(self, best: LossAtTick) -> Price:
        loss, tick = best
        if loss == 0.0:
            return Price(0.0, tick)
        return Price(loss + self._search.tolerance + _SLACK * (1.0 + loss), tick)

    def _tilt_piece(self, entry: Entry) -> tuple[int, int, int, int]:
        if self._span is not None and not (self._span[0] <= entry.first and entry.last <= self._span[1]):
            raise ValueError(
                f"the entry is for ticks {entry.first} to {entry.last}; "
                f"the stream has only ticks {self._span[0]} to {self._span[1]}"
            )
        return entry.first, entry.last, to_units(entry.tau0), to_units(entry.tau1)

    def _with(self, entry: Entry) -> tuple[TiltRuns, _Search, LossAtTick]:
        """The history with the entry; losses at ticks beyond the forgetting time are unchanged."""
        runs = self._runs.copy()
        runs.add(*self._tilt_piece(entry))
        touched = runs.runs_touching(entry.first, entry.last)
        search = self._search.up_to(runs.tilts[touched.start : touched.stop])
        if search is not self._search:
            return runs, search, self._largest_loss_overall(search, runs)
        memory = search.forgetting_time
        loss = self._largest_loss_between(
            search, runs, entry.first - memory, entry.last + memory, self._largest_loss
        )
        return runs, search, loss

    def _largest_loss_overall(self, search: _Search, runs: TiltRuns) -> LossAtTick:
        return self._largest_loss_between(search, runs, runs.edges[0], runs.edges[-1] - 1, NO_LOSS)

    def _largest_loss_between(
        self,
        search: _Search,
        runs: TiltRuns,
        first: int,
        last: int,
        best: LossAtTick,
    ) -> LossAtTick:
        """The larger of `best` and the largest loss at the ticks first…last that are priced."""
        if self._ticks is not None:
            first, last = max(first, self._ticks[0]), min(last, self._ticks[1])
            if first > last:
                return best
            # No search looks at a part of a run.
            runs.cut(self._ticks[0])
            runs.cut(self._ticks[1] + 1)
        return search.largest_loss(runs, first, last, best)


def _search_of(theta: BinaryTheta, adversary: Adversary, *, endless: bool) -> _Search:
    q, r = theta.q_low, theta.r_low
    if not theta.single:
        return ChangingSearch(theta, adversary)
    if adversary == "informed" and q + r < 1.0 and forgetting_time(q, r) > LONGEST_MEMORY:
        return SlowChainSearch(q, r)
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
