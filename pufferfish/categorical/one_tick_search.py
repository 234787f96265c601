"""The search for the largest loss of a k-state stream where steps of one tick are the best.

Against the prior adversary a step is that of pufferfish/categorical/hull_side.py; against the informed one it is the
projective step (pufferfish/categorical/informed_side.py), whose R is at most that of an endless stream of the largest
tilt of the timeline.
"""

from __future__ import annotations

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import informed_sides
from hushmq.pufferfish.categorical.hull_side import hull_sides
from hushmq.pufferfish.categorical.informed_side import InformedSide
from hushmq.pufferfish.mobius.changing_search import ChangingSearch
from hushmq.pufferfish.mobius.two_sides import ChangingChain


def one_tick_search(theta: CategoricalTheta, *, informed: bool) -> ChangingSearch | None:
    """The search, or None where longer steps prove more, or nothing is proved; without numpy always None."""
    if informed:
        left, right = informed_sides(theta)
        return None if _one_tick_chain(left, right, 0.0) is None else _informed_search(left, right)
    sides = hull_sides(theta)
    if sides is None or (before := sides[0].one_tick) is None or (after := sides[1].one_tick) is None:
        return None
    chains = [ChangingChain(None, before, after)]
    return ChangingSearch(lambda _tilts: chains, for_all_tilts=True)


def _informed_search(left: InformedSide, right: InformedSide) -> ChangingSearch:
    """By the largest tilts, the projective steps up to what bridges prove."""

    def chains(largest_tilts: tuple[float, float]) -> list[ChangingChain]:
        chain = _one_tick_chain(left, right, max(largest_tilts))
        return [] if chain is None else [chain]

    return ChangingSearch(chains)


def _one_tick_chain(left: InformedSide, right: InformedSide, tau: float) -> ChangingChain | None:
    before, after = left.one_tick_up_to(tau), right.one_tick_up_to(tau)
    return None if before is None or after is None else ChangingChain(None, before, after)
