"""The loss and the largest tilts of an endless stream under a finite set of chains with regimes: its worst member's.

Every member is certified (pufferfish/regimes/regime_bound.py), also one that is MTP2, for so does a timeline.
"""

from __future__ import annotations

import math
from functools import lru_cache

from hushmq.pufferfish.regimes.regime_bound import StridedRegimes
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta
from hushmq.pufferfish.regimes.regime_tilts import certified_tilts

TILT_MARGIN = 1e-7
"""Exceeds by how much the price of a long timeline, relative to ε, may exceed a constant loss."""


@lru_cache(maxsize=4096)
def constant_loss(theta: RegimeTheta, tau0: float, tau1: float, stride: int) -> float:
    """The loss of these tilts at every `stride`-th tick for ever, for the worst member."""
    if not tau0 and not tau1:
        return 0.0
    return max(max(StridedRegimes(member, stride).directed_losses(tau0, tau1)) for member in theta.members)


@lru_cache(maxsize=4096)
def largest_tilts(theta: RegimeTheta, epsilon: float, stride: int) -> tuple[float, float]:
    """The largest tilts found whose loss is within ε for every member.

    Members are asked from the slowest on. One that is within ε at the tilts found so far needs no search of its own,
    and stays within it where another member makes them smaller, because no loss grows where a tilt falls.
    """
    limit = epsilon * (1 - TILT_MARGIN)
    zero = one = math.inf
    for member in sorted(theta.members, key=lambda chain: chain.slowest_rate):
        if math.isfinite(zero) and max(StridedRegimes(member, stride).directed_losses(zero, one)) <= limit:
            continue
        own = certified_tilts(member, limit, stride)
        zero, one = min(zero, own[0]), min(one, own[1])
    return zero, one
