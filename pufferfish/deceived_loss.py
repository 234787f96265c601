"""What a device can lose if learning is deceived: whatever the learned Θ became, it contains the policy's floor.

Theorem (docs/theory-world.md, Theorem 13). Let every setting that a device follows keep ε under some Θ that contains
the floor. With T0 and T1 the largest tilts in either direction with which any noise keeps ε under the floor, a device
whose chain is in `start` loses at most loss(start; T0, T1), whatever mixture of settings it was given.
"""

from __future__ import annotations

from collections.abc import Callable

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.bisection import bisection
from hushmq.pufferfish.protocols import Theta

_CLOSE = 1e-9
"""Relative error of the largest tilts, to the side of more loss."""
_LARGEST = 64.0
"""No stream has a tilt beyond this one."""


def deceived_loss(
    start: Theta, floor: Theta, epsilon: float, adversary: Adversary, *, stride: int = 1
) -> float:
    """The loss of a chain in `start` under the least noise that keeps ε for the floor; infinite if none is proved."""
    tau0, tau1 = floor.largest_tilts(epsilon, adversary, stride=stride)
    if not (tau0 > 0 and tau1 > 0):
        return 0.0  # no noise keeps ε under the floor, so nothing is published
    alone0 = _alone(tau0, lambda tau: floor.constant_loss(tau, 0.0, adversary, stride=stride) <= epsilon)
    alone1 = _alone(tau1, lambda tau: floor.constant_loss(0.0, tau, adversary, stride=stride) <= epsilon)
    return start.constant_loss(alone0, alone1, adversary, stride=stride)


def deceived_public_loss(
    start: Theta, floor: Theta, epsilon: float, adversary: Adversary, *, stride: int = 1
) -> float:
    """The same for who reads releases only: windows tilt no tick by more than the floor allows in both directions."""
    tau = min(floor.largest_tilts(epsilon, adversary, stride=stride))
    return start.constant_loss(tau, tau, adversary, stride=stride) if tau > 0 else 0.0


def _alone(tau: float, keeps: Callable[[float], bool]) -> float:
    """The largest tilt of one direction while the other is 0, from a tilt that keeps ε with another beside it."""
    above = tau * (1 + _CLOSE)
    if not keeps(above):
        return above
    while keeps(above) and above < _LARGEST:
        above *= 2
    _, high = bisection(keeps, tau, above, relative=_CLOSE)
    return high
