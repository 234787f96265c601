"""The informed adversary on one slow chain, in a few evaluations per run.

The exact search visits the instants that may be known one by one, and there are as many as the chain remembers. A slow
chain is priced as a Θ that holds nothing else (docs/theory-world.md, Theorem 17), which is an upper bound. No side says
more than on an endless stream of the largest tilt, for which the exact loss is known, so that the price of a long
constant stream is exact too.
"""

from __future__ import annotations

from dataclasses import replace

from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.changing_chain import changing_chains
from hushmq.pufferfish.binary.stream_loss import endless_side_log_ratio
from hushmq.pufferfish.mobius.two_sides import ChangingChain

LONGEST_MEMORY = 2048
"""Chains with a longer forgetting time are slow."""


def slow_chains(q: float, r: float, largest_tilts: tuple[float, float]) -> list[ChangingChain]:
    """The chain in favour of each state, if no tilts towards 0 and towards 1 exceed these."""
    kernels = (q, r), (r, q)
    chains = changing_chains(BinaryTheta.point(q, r), "informed", largest_tilts)
    return [
        replace(chain, ceiling=2.0 * endless_side_log_ratio(*kernel, tau, "informed"))
        for chain, kernel, tau in zip(chains, kernels, largest_tilts, strict=True)
    ]
