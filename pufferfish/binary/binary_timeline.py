"""The timeline of a two-state stream: its whole history as one tilt function τ(t), and the loss of that history.

Tilts add: a tick covered by several entries has the sum of their tilts. The price is the largest loss at any tick,
covered or not, for the worst chain in Θ (docs/theory.md, Theorems 1, 4, 6 and 7). It is an upper bound on the supremum
and, for a single chain, exceeds it by rounding errors only; against a Θ of several chains the informed adversary may
also hold soft evidence.

A new entry changes losses only within the forgetting time of its ticks (Lemma 1). The timeline therefore stores its
price and, after an addition, searches those ticks only.
"""

from __future__ import annotations

from collections.abc import Iterable

from hushmq.pufferfish.adversary import Adversary, check_adversary
from hushmq.pufferfish.binary.alternating_search import largest_alternating_loss
from hushmq.pufferfish.binary.binary_spread import odds_spread
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.directed_chain import DirectedChain, forgetting_time
from hushmq.pufferfish.binary.informed_search import largest_informed_loss
from hushmq.pufferfish.binary.known_instant import TOLERANCE
from hushmq.pufferfish.binary.prior_search import LossAtTick, largest_prior_loss
from hushmq.pufferfish.protocols import Timeline
from hushmq.pufferfish.timeline.entry import Entry, Price, Ticks
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_units
from hushmq.pufferfish.undecided import UndecidedTimeline

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
        self._adversary, self._span, self._ticks = adversary, span, ticks
        self._soft = not theta.single
        self._chains = theta.worst_corners()
        self._forgetting_time = max(forgetting_time(q, r) for q, r in self._chains)
        self._directed_chains = [
            chain
            for q, r in self._chains
            if q + r < 1.0
            for chain in (DirectedChain(q, r, 0, soft=self._soft), DirectedChain(r, q, 1, soft=self._soft))
        ]
        pieces = [self._tilt_piece(entry) for entry in entries]
        if span is not None:
            if span[0] > span[1]:
                raise ValueError(f"span is {span}; it must be the first tick and the last, in this order")
            pieces.append((*span, 0, 0))
        if ticks is not None:
            pieces.append((ticks[0], ticks[0], 0, 0))
        self._runs = TiltRuns(pieces)
        self._largest_loss: LossAtTick = (0.0, None)
        if self._runs.tilts:
            self._largest_loss = self._largest_loss_between(
                self._runs, self._runs.edges[0], self._runs.edges[-1] - 1
            )

    def add(self, entry: Entry) -> None:
        """Adds an entry to the history; ValueError if it lies outside the span."""
        runs = self._runs.copy()
        self._largest_loss = self._largest_loss_with(runs, entry)
        self._runs = runs

    def price(self) -> Price:
        """The price of the history."""
        return self._certified_price(self._largest_loss)

    def price_with(self, entry: Entry) -> Price:
        """The price if the entry were added; the timeline does not change."""
        return self._certified_price(self._largest_loss_with(self._runs.copy(), entry))

    def _certified_price(self, best: LossAtTick) -> Price:
        loss, tick = best
        if loss == 0.0:
            return Price(0.0, tick)
        # The informed search stops when no tick can exceed the largest loss found by more than TOLERANCE.
        tolerance = TOLERANCE if self._adversary == "informed" else 0.0
        return Price(loss + tolerance + _SLACK * (1.0 + loss), tick)

    def _tilt_piece(self, entry: Entry) -> tuple[int, int, int, int]:
        if self._span is not None and not (self._span[0] <= entry.first and entry.last <= self._span[1]):
            raise ValueError(
                f"the entry is for ticks {entry.first} to {entry.last}; "
                f"the stream has only ticks {self._span[0]} to {self._span[1]}"
            )
        return entry.first, entry.last, to_units(entry.tau0), to_units(entry.tau1)

    def _largest_loss_with(self, runs: TiltRuns, entry: Entry) -> LossAtTick:
        """Adds the entry to `runs` and returns their largest loss; ticks beyond the forgetting time are unchanged."""
        runs.add(*self._tilt_piece(entry))
        return self._largest_loss_between(
            runs, entry.first - self._forgetting_time, entry.last + self._forgetting_time
        )

    def _largest_loss_between(self, runs: TiltRuns, first: int, last: int) -> LossAtTick:
        """The larger of the stored largest loss and the largest loss at the ticks first…last that are priced."""
        if self._ticks is not None:
            first, last = max(first, self._ticks[0]), min(last, self._ticks[1])
            if first > last:
                return self._largest_loss
            # No search looks at a part of a run.
            runs.cut(self._ticks[0])
            runs.cut(self._ticks[1] + 1)
        window, best, endless = runs.runs_touching(first, last), self._largest_loss, self._span is None
        for chain in self._directed_chains:
            if self._adversary == "prior":
                best = largest_prior_loss(runs, chain, window, best)
            else:
                best = largest_informed_loss(
                    runs, chain, window, first=first, last=last, endless=endless, best=best
                )
        for q, r in self._chains:
            if q + r >= 1.0:
                best = largest_alternating_loss(
                    runs,
                    q,
                    r,
                    window,
                    adversary=self._adversary,
                    soft=self._soft,
                    endless=endless,
                    best=best,
                )
        return best


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
