"""The largest loss on a timeline under a Θ of several chains: a few evaluations per run, for both adversaries.

Along a run what the outputs before a tick say moves towards a fixed point by a map with a slope between 0 and 1: from
below, its rises become smaller from tick to tick, so it is concave along the run, and so is what the outputs after the
tick say. The loss is then concave too, and largest where its rise changes sign; in all other cases it is largest at an
end of the run (docs/theory-world.md, Theorem 16).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.changing_chain import ChangingChain, changing_chains
from hushmq.pufferfish.binary.changing_side import ChangingSide
from hushmq.pufferfish.binary.directed_chain import forgetting_time
from hushmq.pufferfish.binary.prior_search import LossAtTick
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_nats


class ChangingSearch:
    """The search for timelines of no larger tilts than those it was made for."""

    tolerance = 0.0

    def __init__(
        self, theta: BinaryTheta, adversary: Adversary, largest_tilts: tuple[int, int] = (0, 0)
    ) -> None:
        self._theta, self._adversary, self._largest_tilts = theta, adversary, largest_tilts
        self.forgetting_time = max(forgetting_time(q, r) for q, r in theta.worst_corners())
        self._chains = changing_chains(
            theta, adversary, (to_nats(largest_tilts[0]), to_nats(largest_tilts[1]))
        )

    def up_to(self, tilts: Iterable[tuple[int, int]]) -> ChangingSearch:
        """The search for a timeline with these tilts too: this one, unless they are larger."""
        pairs = [self._largest_tilts, *tilts]
        largest = max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
        if largest == self._largest_tilts:
            return self
        return ChangingSearch(self._theta, self._adversary, largest)

    def largest_loss(self, runs: TiltRuns, first: int, last: int, best: LossAtTick) -> LossAtTick:
        """The larger of `best` and the largest loss at the ticks first…last, with its tick."""
        window = runs.runs_touching(first, last)
        for chain in self._chains:
            best = largest_changing_loss(runs, chain, window, self.forgetting_time, best)
        return best


def largest_changing_loss(
    runs: TiltRuns, chain: ChangingChain, window: range, forgetting_time: int, best: LossAtTick
) -> LossAtTick:
    """The larger of `best` and the largest loss in the runs of the window, with its tick."""
    edges = runs.edges
    nearby = runs.runs_touching(edges[window.start] - forgetting_time, edges[window.stop] + forgetting_time)
    taus = {k: to_nats(tilt_of(runs.tilts[k], chain)) for k in nearby}
    lengths = {k: edges[k + 1] - edges[k] for k in nearby}
    # What is beyond the forgetting time is forgotten; the largest value keeps the result an upper bound.
    begin = chain.left.largest if nearby.start else 0.0
    end = chain.right.largest if nearby.stop < len(runs.tilts) else 0.0
    lefts = dict(_before_each(nearby, taus, lengths, chain.left, begin))
    rights = dict(_before_each(reversed(nearby), taus, lengths, chain.right, end))
    loss, tick = best
    for k in window:
        tau = taus[k]
        settled = chain.left.endless(tau), chain.right.endless(tau)
        if tau + min(max(lefts[k], settled[0]) + max(rights[k], settled[1]), chain.ceiling) <= loss:
            continue
        here, place = _largest_in_run(chain, tau, lengths[k] - 1, lefts[k], rights[k], settled)
        here = min(here, chain.ceiling)
        if tau + here > loss:
            loss, tick = tau + here, edges[k] + place
    return loss, tick


def tilt_of(tilts: tuple[int, int], chain: ChangingChain) -> int:
    """The tilt that counts for the chain."""
    return max(tilts) if chain.state is None else tilts[chain.state]


def _before_each(
    order: Iterable[int], taus: dict[int, float], lengths: dict[int, int], side: ChangingSide, x: float
) -> Iterator[tuple[int, float]]:
    """For each run, what all runs before it say, if those before the first say x."""
    for k in order:
        yield k, x
        x = side.advance(taus[k], lengths[k], x)


def _largest_in_run(
    chain: ChangingChain, tau: float, last: int, left: float, right: float, settled: tuple[float, float]
) -> tuple[float, int]:
    """The largest sum of both sides in a run, and its offset."""

    def both(place: int) -> float:
        return chain.left.advance(tau, place, left) + chain.right.advance(tau, last - place, right)

    places = {0, last}
    if left < settled[0] and right < settled[1]:
        low, high = 0, last
        while low < high:
            middle = (low + high) // 2
            if both(middle + 1) > both(middle):
                low = middle + 1
            else:
                high = middle
        places.add(low)
    return max((both(place), place) for place in places)
