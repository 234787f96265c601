"""The loss of one chain with regimes on an endless stream, and the largest tilts within ε, in plain Python.

The loss is exact where the chain is MTP2 (pufferfish/regimes/product_tilt.py) and otherwise certified
(pufferfish/regimes/regime_bound.py), against the prior adversary: who knows bits as well is not blocked by them, for
the regime goes on behind them.
"""

from __future__ import annotations

import math

from hushmq.pufferfish.false_position import largest_within
from hushmq.pufferfish.regimes.product_tilt import TiltedStream, directed_loss
from hushmq.pufferfish.regimes.regime_bound import StridedRegimes
from hushmq.pufferfish.regimes.regime_chain import RegimeChain

_PRECISION = 1e-9
_CORRECTIONS = 8
_OVERSHOOT = 1.0001
_NEARBY = 1e-4
_LEAST_SLOPE = 0.05
_MARGIN = 1e-7
"""The share of ε that is left unused: by so much the certified loss of almost equal tilts may differ."""


def directed_losses(chain: RegimeChain, tau0: float, tau1: float, stride: int = 1) -> tuple[float, float]:
    """The loss towards either bit of an endless stream with these tilts at every `stride`-th tick."""
    if chain.is_mtp2:
        return directed_loss(chain, 0, tau0, stride), directed_loss(chain, 1, tau1, stride)
    # A new one each time: what a search has learned about one tilt must not change the price of another.
    return StridedRegimes(chain, stride).directed_losses(tau0, tau1)


def loss(chain: RegimeChain, tau0: float, tau1: float, stride: int = 1) -> float:
    """The larger of the two."""
    return max(directed_losses(chain, tau0, tau1, stride))


def largest_tilts(chain: RegimeChain, epsilon: float, stride: int = 1) -> tuple[float, float]:
    """The largest tilts found towards either bit whose loss is within ε."""
    if not chain.is_mtp2:
        return certified_tilts(chain, epsilon, stride)
    goal = epsilon * (1 - 1e-9)
    zero, one = (_directed_tilt(chain, bit, goal, stride) for bit in range(2))
    return zero, one


def certified_tilts(chain: RegimeChain, epsilon: float, stride: int = 1) -> tuple[float, float]:
    """The largest tilts found towards either bit whose certified loss is within ε, less a margin.

    The certified loss exceeds that of the product tilt a little, and grows as it does: so the search starts from the
    tilts of the product and corrects them by its slope.
    """
    goal, limit = epsilon * (1 - 2 * _MARGIN), epsilon * (1 - _MARGIN)
    tilts = [_directed_tilt(chain, bit, goal, stride) for bit in range(2)]
    slopes = [_growth(chain, bit, tilts[bit], stride) for bit in range(2)]
    near = StridedRegimes(chain, stride)
    for _ in range(_CORRECTIONS):
        found = near.directed_losses(tilts[0], tilts[1])
        if max(found) <= limit:
            break
        for bit in range(2):
            if found[bit] > goal:
                tilts[bit] *= max(0.5, (goal / found[bit]) ** (_OVERSHOOT / slopes[bit]))
    # Afresh: what the search has learned about other tilts must not decide.
    while max(StridedRegimes(chain, stride).directed_losses(tilts[0], tilts[1])) > limit:
        tilts = [tau * (1 - 1e-3) for tau in tilts]
    return tilts[0], tilts[1]


def _growth(chain: RegimeChain, bit: int, tau: float, stride: int) -> float:
    """By how many percent the loss of the product tilt grows where the tilt grows by one."""
    less, more = (
        TiltedStream(chain, bit, tau * factor, stride).published_loss() for factor in (1 - _NEARBY, 1.0)
    )
    return max(_LEAST_SLOPE, math.log(more / less) / -math.log1p(-_NEARBY))


def _directed_tilt(chain: RegimeChain, bit: int, epsilon: float, stride: int) -> float:
    """The largest tilt whose product loss towards the bit is within ε.

    Unpublished ticks are left out of the search: they were never the worst, and the result is checked with them.
    """
    tau = largest_within(
        lambda tilt: TiltedStream(chain, bit, tilt, stride).published_loss(), epsilon, epsilon, _PRECISION
    )
    if directed_loss(chain, bit, tau, stride) > epsilon:
        tau = largest_within(
            lambda tilt: directed_loss(chain, bit, tilt, stride), epsilon, epsilon, _PRECISION
        )
    return tau
