"""The two sides of a tick under a Θ of several chains, whose kernel may be another one of them at every step.

The adversary knows every kernel. The expected odds p of the two states are confined where Θ confines them:

- *prior adversary, before the tick*: p stays between r−/q+ and r+/q−, the odds that the kernels of Θ can bring about;
- *prior adversary, after the tick*: the ratio of the future given either state begins at 1, so that the chain (q−, r−)
  is the worst, with p = r−/q−;
- *informed adversary*: whatever he knows, J ticks later p lies where J steps of the kernels bring it. Until then the
  outputs say no more than J ticks of the largest tilt do. This is used for a sequence of J, each a third longer.

If Θ has chains with q + r > 1, nothing is assumed about p, and both tilts count as the larger one: a step of such a
chain turns evidence for one state into evidence for the other (docs/theory-world.md, Theorems 16 and 17).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.mobius.changing_side import ChangingSide, alpha_of
from hushmq.pufferfish.mobius.phased_side import PhasedSide
from hushmq.pufferfish.mobius.two_sides import ChangingChain

# After so many e-folds nothing is left of what was known.
_FORGOTTEN_EFOLDS = 60.0

# By how much each J is longer than the one before.
_GROWTH = 4, 3

# With q + r nearer to 1 there is nothing to gain from the confined odds.
_LARGEST_SUM = 1.0 - 2.0**-30

# The sides of phases are asked about one tilt after another, and there are many of them.
_KEPT = 16

_Interval = tuple[float, float]


def changing_chains(
    theta: BinaryTheta, adversary: Adversary, largest_tilts: tuple[float, float]
) -> list[ChangingChain]:
    """The worst of Θ for each favoured state, if no tilt towards 0 and towards 1 exceeds the largest ones."""
    if not splits_by_state(theta):
        alpha = min(alpha_of(q, r) for q, r in theta.worst_corners())
        side = ChangingSide.of_any_odds(alpha)
        return [ChangingChain(None, side, side)]
    return [favouring(theta, state, adversary, largest_tilts[state]) for state in (0, 1)]


def stationary_chains(q: float, r: float, _largest_tilts: tuple[float, float]) -> list[ChangingChain]:
    """One chain with q + r < 1, of which the adversary knows no states (docs/theory.md, Theorem 1)."""
    sides = ChangingSide.of_kernel(q, r), ChangingSide.of_kernel(r, q)
    return [ChangingChain(state, side, side) for state, side in enumerate(sides)]


def splits_by_state(theta: BinaryTheta) -> bool:
    """Whether a loss favouring one state depends on the tilts towards it alone: where no chain has q + r > 1."""
    return theta.q_high + theta.r_high <= _LARGEST_SUM


def favouring(theta: BinaryTheta, state: int, adversary: Adversary, largest_tilt: float) -> ChangingChain:
    """The worst of Θ in favour of a state, where no chain has q + r > 1."""
    q, r = (theta.q_low, theta.q_high), (theta.r_low, theta.r_high)
    if state == 1:
        q, r = r, q
    slowest = q[0], r[0]
    if adversary == "prior":
        left = ChangingSide.of_odds_between(*slowest, r[0] / q[1], r[1] / q[0])
        right = ChangingSide.of_odds_between(*slowest, r[0] / q[0], r[0] / q[0])
    else:
        left, right = (side.up_to(largest_tilt) for side in _informed_sides(q, r))
    return ChangingChain(state, left, right)


def endless_loss(theta: BinaryTheta, state: int, adversary: Adversary, tau: float) -> float:
    """The loss in favour of a state on an endless stream with this tilt towards it at every tick.

    As that of the chain favouring the state, where no chain has q + r > 1; without what only finite runs need.
    """
    if adversary == "prior":
        return favouring(theta, state, adversary, tau).endless_loss(tau)
    q, r = (theta.q_low, theta.q_high), (theta.r_low, theta.r_high)
    left, right = _informed_sides(*((r, q) if state == 1 else (q, r)))
    return tau + left.endless(tau) + right.endless(tau)


@lru_cache(maxsize=16)
def _informed_sides(q: _Interval, r: _Interval) -> tuple[PhasedSide, PhasedSide]:
    """Both sides in favour of state 0; cached, because callers ask for several tilts of one Θ in a row."""
    slowest = q[0], r[0]
    return (
        _informed_side(*slowest, (q[1], r[0]), (q[0], r[1])),
        _informed_side(*slowest, slowest, slowest),
    )


def _informed_side(
    q: float, r: float, lowest: tuple[float, float], highest: tuple[float, float]
) -> PhasedSide:
    """`lowest` and `highest` are the kernels that move p most."""
    slow = max(math.log1p(-sum(lowest)), math.log1p(-sum(highest)))
    longest = math.ceil(_FORGOTTEN_EFOLDS / -slow)
    phases = []
    for ticks in _growing(longest):
        low = 1.0 / _odds_after_certainty(*lowest[::-1], ticks)
        high = _odds_after_certainty(*highest, ticks)
        phases.append((ticks, ChangingSide.of_odds_between(q, r, low, high, kept=_KEPT)))
    return PhasedSide(ChangingSide.of_any_odds(alpha_of(q, r), kept=_KEPT), tuple(phases))


def _growing(last: int) -> Iterator[int]:
    """1, 2, 3, 4, 6, 8, 11, … up to a last number."""
    number = 1
    while number < last:
        yield number
        number = max(number + 1, number * _GROWTH[0] // _GROWTH[1])
    yield last


def _odds_after_certainty(q: float, r: float, ticks: int) -> float:
    """The odds of state 0 some ticks after it was certain: (π0 + π1·λ^n)/(π1·(1−λ^n))."""
    exponent = ticks * math.log1p(-(q + r))
    return (r + q * math.exp(exponent)) / (q * -math.expm1(exponent))
