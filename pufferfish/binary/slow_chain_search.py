"""The largest loss to the informed adversary on a timeline of one slow chain, in a few evaluations per run.

The exact search visits the instants that may be known one by one, and there are as many as the chain remembers. A slow
chain is priced as a Θ that holds nothing else (docs/theory-world.md, Theorem 17), which is an upper bound. No side says
more than on an endless stream of the largest tilt, for which the exact loss is known, so that the price of a long
constant stream is exact too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.changing_chain import changing_chains
from hushmq.pufferfish.binary.changing_search import largest_changing_loss
from hushmq.pufferfish.binary.directed_chain import forgetting_time
from hushmq.pufferfish.binary.prior_search import LossAtTick
from hushmq.pufferfish.binary.stream_loss import endless_side_log_ratio
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_nats

LONGEST_MEMORY = 2048
"""Chains with a longer forgetting time are slow."""


class SlowChainSearch:
    """The search for timelines of no larger tilts than those it was made for."""

    tolerance = 0.0

    def __init__(self, q: float, r: float, largest_tilts: tuple[int, int] = (0, 0)) -> None:
        self._q, self._r, self._largest_tilts = q, r, largest_tilts
        self.forgetting_time = forgetting_time(q, r)
        taus = to_nats(largest_tilts[0]), to_nats(largest_tilts[1])
        ceilings = (
            2.0 * endless_side_log_ratio(q, r, taus[0], "informed"),
            2.0 * endless_side_log_ratio(r, q, taus[1], "informed"),
        )
        chains = changing_chains(BinaryTheta.point(q, r), "informed", taus)
        self._chains = [
            replace(chain, ceiling=ceiling) for chain, ceiling in zip(chains, ceilings, strict=True)
        ]

    def up_to(self, tilts: Iterable[tuple[int, int]]) -> SlowChainSearch:
        """The search for a timeline with these tilts too: this one, unless they are larger."""
        pairs = [self._largest_tilts, *tilts]
        largest = max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
        return self if largest == self._largest_tilts else SlowChainSearch(self._q, self._r, largest)

    def largest_loss(self, runs: TiltRuns, first: int, last: int, best: LossAtTick) -> LossAtTick:
        """The larger of `best` and the largest loss at the ticks first…last, with its tick."""
        window = runs.runs_touching(first, last)
        for chain in self._chains:
            best = largest_changing_loss(runs, chain, window, self.forgetting_time, best)
        return best
