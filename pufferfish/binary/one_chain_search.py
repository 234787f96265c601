"""The largest loss on a timeline of one chain: with a negative correlation, or to the informed adversary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.alternating_search import largest_alternating_loss
from hushmq.pufferfish.binary.directed_chain import DirectedChain, forgetting_time
from hushmq.pufferfish.binary.informed_search import largest_informed_loss
from hushmq.pufferfish.binary.known_instant import TOLERANCE
from hushmq.pufferfish.timeline.entry import NO_LOSS, LossAtTick, Ticks
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns


@dataclass(frozen=True, slots=True)
class FoundLoss:
    """The runs of a timeline and their largest loss."""

    runs: TiltRuns
    largest: LossAtTick
    tolerance: float


class OneChainSearch:
    """The searches of one chain. If `endless`, states beyond the timeline may be known too."""

    def __init__(self, q: float, r: float, adversary: Adversary, *, endless: bool) -> None:
        self._q, self._r, self._adversary, self._endless = q, r, adversary, endless
        self._forgetting_time = forgetting_time(q, r)
        # The informed search stops when no tick can exceed the largest loss found by more than this.
        self._tolerance = TOLERANCE if adversary == "informed" else 0.0
        self._directed_chains = [DirectedChain(q, r, 0), DirectedChain(r, q, 1)] if q + r < 1.0 else []

    def up_to(self, _tilts: Iterable[tuple[int, int]]) -> OneChainSearch:
        """The search for a timeline with these tilts too: any search is for all tilts."""
        return self

    def fresh(self, _found: FoundLoss) -> OneChainSearch:
        """The same search."""
        return self

    def searched(self, runs: TiltRuns, ticks: Ticks | None = None) -> FoundLoss:
        """All of the runs; with `ticks` their largest loss at these."""
        if not runs.tilts:
            return FoundLoss(runs, NO_LOSS, self._tolerance)
        return self._searched(runs, (runs.edges[0], runs.edges[-1] - 1), ticks, NO_LOSS)

    def searched_after(
        self, earlier: FoundLoss, runs: TiltRuns, changed: Ticks, ticks: Ticks | None = None
    ) -> FoundLoss:
        """The same, where the runs have larger tilts than earlier ones at the changed ticks, and at no others."""
        memory = self._forgetting_time
        return self._searched(runs, (changed[0] - memory, changed[1] + memory), ticks, earlier.largest)

    def _searched(self, runs: TiltRuns, between: Ticks, ticks: Ticks | None, best: LossAtTick) -> FoundLoss:
        """The larger of `best` and the largest loss at these ticks, with its tick."""
        first, last = between
        if ticks is not None:
            first, last = max(first, ticks[0]), min(last, ticks[1])
        if first <= last:
            best = self._largest_loss(runs, first, last, best)
        return FoundLoss(runs, best, self._tolerance)

    def _largest_loss(self, runs: TiltRuns, first: int, last: int, best: LossAtTick) -> LossAtTick:
        window = runs.runs_touching(first, last)
        if not self._directed_chains:
            return largest_alternating_loss(
                runs, self._q, self._r, window, adversary=self._adversary, endless=self._endless, best=best
            )
        for chain in self._directed_chains:
            best = largest_informed_loss(
                runs, chain, window, first=first, last=last, endless=self._endless, best=best
            )
        return best
