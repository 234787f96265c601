"""The largest loss on a timeline of a single chain, for both adversaries and either sign of its correlation."""

from __future__ import annotations

from collections.abc import Iterable

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.alternating_search import largest_alternating_loss
from hushmq.pufferfish.binary.directed_chain import DirectedChain, forgetting_time
from hushmq.pufferfish.binary.informed_search import largest_informed_loss
from hushmq.pufferfish.binary.known_instant import TOLERANCE
from hushmq.pufferfish.binary.prior_search import LossAtTick, largest_prior_loss
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns


class OneChainSearch:
    """The searches of one chain. If `endless`, states beyond the timeline may be known too."""

    def __init__(self, q: float, r: float, adversary: Adversary, *, endless: bool) -> None:
        self._q, self._r, self._adversary, self._endless = q, r, adversary, endless
        self.forgetting_time = forgetting_time(q, r)
        # The informed search stops when no tick can exceed the largest loss found by more than this.
        self.tolerance = TOLERANCE if adversary == "informed" else 0.0
        self._directed_chains = [DirectedChain(q, r, 0), DirectedChain(r, q, 1)] if q + r < 1.0 else []

    def up_to(self, _tilts: Iterable[tuple[int, int]]) -> OneChainSearch:
        """The search for a timeline with these tilts too: any search is for all tilts."""
        return self

    def largest_loss(self, runs: TiltRuns, first: int, last: int, best: LossAtTick) -> LossAtTick:
        """The larger of `best` and the largest loss at the ticks first…last, with its tick."""
        window = runs.runs_touching(first, last)
        if not self._directed_chains:
            return largest_alternating_loss(
                runs, self._q, self._r, window, adversary=self._adversary, endless=self._endless, best=best
            )
        for chain in self._directed_chains:
            if self._adversary == "prior":
                best = largest_prior_loss(runs, chain, window, best)
            else:
                best = largest_informed_loss(
                    runs, chain, window, first=first, last=last, endless=self._endless, best=best
                )
        return best
