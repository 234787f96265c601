"""Both sides of a tick: what the outputs before it and after it say at most."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushmq.pufferfish.mobius.changing_side import ChangingSide


@dataclass(frozen=True, slots=True)
class ChangingChain:
    """What the outputs before and after a tick say at most in favour of a state; of both states, if it is None."""

    state: int | None
    left: ChangingSide
    right: ChangingSide
    ceiling: float = math.inf
    """What both sides together say at most, where that is known from elsewhere."""

    def endless_loss(self, tau: float) -> float:
        """The loss of an endless stream with this tilt at every tick."""
        return tau + self.left.endless(tau) + self.right.endless(tau)
