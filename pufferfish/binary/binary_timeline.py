"""The timeline of a two-state stream: its whole history as one tilt function τ(t), and the loss of that history.

Tilts add: a tick covered by several entries has the sum of their tilts. The price is the largest loss at any tick,
covered or not. For a single chain it exceeds the supremum by rounding errors only (docs/theory.md, Theorems 1, 4 and
7), unless the chain is slow and the adversary informed (pufferfish/binary/slow_chains.py). Under a Θ of several
chains every step may have the kernel of another one (docs/theory-world.md, Theorems 16 and 17), and the price is an
upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from hushmq.pufferfish.adversary import Adversary, check_adversary
from hushmq.pufferfish.binary.binary_spread import odds_spread
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.changing_chain import (
    changing_chains,
    splits_by_state,
    stationary_chains,
)
from hushmq.pufferfish.binary.directed_chain import forgetting_time
from hushmq.pufferfish.binary.one_chain_search import OneChainSearch
from hushmq.pufferfish.binary.slow_chains import LONGEST_MEMORY, slow_chains
from hushmq.pufferfish.mobius.changing_search import ChangingSearch
from hushmq.pufferfish.mobius.searched_timeline import SearchedTimeline
from hushmq.pufferfish.protocols import Timeline
from hushmq.pufferfish.timeline.entry import Entry, Price, Ticks
from hushmq.pufferfish.undecided import UndecidedTimeline


class BinaryTimeline(SearchedTimeline[Any]):
    """The entries of one stream and audience, priced incrementally; see `SearchedTimeline`."""

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
        search = _search_of(theta, adversary, endless=span is None)
        super().__init__(search, entries, span=span, ticks=ticks)


def _search_of(theta: BinaryTheta, adversary: Adversary, *, endless: bool) -> OneChainSearch | ChangingSearch:
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
