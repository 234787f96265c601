"""The timeline: the whole history of a stream as one function τ(t), and what it lets anyone infer.

Entries add up: at a tick covered by several, the tilt is the sum. The price is the largest loss at any tick,
covered or not, for the worst chain in Θ (docs/theory.md, Theorems 1, 4, 6 and 7). It is certified, never below
the true supremum, and above it by no more than rounding for one chain; for a box of chains the informed
adversary may also hold soft evidence.

Adding an entry raises losses only near it: the chain forgets the rest at a known rate. So a timeline keeps its
price and, after a change, looks only at the ticks within reach of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hushmq.pufferfish.binary import alternating_search as timeline_alternating
from hushmq.pufferfish.binary import informed_search as timeline_informed
from hushmq.pufferfish.binary import prior_search as timeline_prior
from hushmq.pufferfish.binary.directed_chain import Track, reach
from hushmq.pufferfish.binary.known_instant import TOLERANCE
from hushmq.pufferfish.binary.prior_search import Best
from hushmq.pufferfish.binary.stream_loss import Adversary, Box, check_adversary, check_tilts
from hushmq.pufferfish.timeline.tilt_runs import Runs, units

# More than rounding and what lies out of reach can lose.
_SLACK = 2.0**-44


@dataclass(frozen=True, slots=True)
class Entry:
    """A thing published: it tilts every tick from first to last, both included, by at most τ0 and τ1."""

    first: int
    last: int
    tau0: float
    tau1: float

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise ValueError(f"last is {self.last}; it must not be before first, {self.first}")
        check_tilts(self.tau0, self.tau1)


@dataclass(frozen=True, slots=True)
class Price:
    """The largest loss, and a tick where it is reached; no tick where nothing was published."""

    epsilon: float
    tick: int | None


class Timeline:
    """The entries of one stream and audience, priced as they come.

    The span is where the stream exists, first and last tick; without one it never ends on either side, and
    the informed adversary may know instants before the first entry and after the last.
    """

    def __init__(
        self,
        theta: Box,
        adversary: Adversary = "informed",
        entries: Iterable[Entry] = (),
        *,
        span: tuple[int, int] | None = None,
    ) -> None:
        check_adversary(adversary)
        self._adversary, self._span = adversary, span
        self._soft = not theta.single
        self._chains = theta.worst()
        self._reach = max(reach(q, r) for q, r in self._chains)
        self._tracks = [
            track
            for q, r in self._chains
            if q + r < 1.0
            for track in (Track(q, r, 0, soft=self._soft), Track(r, q, 1, soft=self._soft))
        ]
        pieces = [self._piece(entry) for entry in entries]
        if span is not None:
            if span[0] > span[1]:
                raise ValueError(f"span is {span}; it must be the first tick and the last, in this order")
            pieces.append((*span, 0, 0))
        self._runs = Runs(pieces)
        self._best: Best = (0.0, None)
        if self._runs.tilts:
            self._best = self._search(self._runs, self._runs.edges[0], self._runs.edges[-1] - 1)

    def add(self, entry: Entry) -> None:
        """Add an entry to the history."""
        runs = self._runs.copy()
        self._best = self._after(runs, entry)
        self._runs = runs

    def price(self) -> Price:
        """What the history lets anyone infer."""
        return self._priced(self._best)

    def price_with(self, entry: Entry) -> Price:
        """The price if the entry were added; nothing changes."""
        return self._priced(self._after(self._runs.copy(), entry))

    def _priced(self, best: Best) -> Price:
        loss, tick = best
        if loss == 0.0:
            return Price(0.0, tick)
        # The search for the informed adversary leaves alone what exceeds its best by no more than a tolerance.
        tolerance = TOLERANCE if self._adversary == "informed" else 0.0
        return Price(loss + tolerance + _SLACK * (1.0 + loss), tick)

    def _piece(self, entry: Entry) -> tuple[int, int, int, int]:
        if self._span is not None and not (self._span[0] <= entry.first and entry.last <= self._span[1]):
            raise ValueError(
                f"the entry is for ticks {entry.first} to {entry.last}; "
                f"the stream has only ticks {self._span[0]} to {self._span[1]}"
            )
        return entry.first, entry.last, units(entry.tau0), units(entry.tau1)

    def _after(self, runs: Runs, entry: Entry) -> Best:
        """Add the entry to the runs; the best there. What is out of its reach has not changed."""
        runs.add(*self._piece(entry))
        return self._search(runs, entry.first - self._reach, entry.last + self._reach)

    def _search(self, runs: Runs, first: int, last: int) -> Best:
        """The largest loss at the ticks first…last or, if that is larger, the largest known before."""
        window, best, endless = runs.covering(first, last), self._best, self._span is None
        for track in self._tracks:
            if self._adversary == "prior":
                best = timeline_prior.search(runs, track, window, best)
            else:
                best = timeline_informed.search(
                    runs, track, window, first=first, last=last, endless=endless, best=best
                )
        for q, r in self._chains:
            if q + r >= 1.0:
                best = timeline_alternating.search(
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


def price(
    entries: Iterable[Entry],
    theta: Box,
    adversary: Adversary = "informed",
    *,
    span: tuple[int, int] | None = None,
) -> Price:
    """The price of a history: the largest loss at any tick, for the worst chain in Θ."""
    return Timeline(theta, adversary, entries, span=span).price()
