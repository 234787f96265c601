"""Whether a tilt at every tick, for ever, keeps ε under Θ: answers for many devices, from few computed losses."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.protocols import Theta

KEPT = 65_536
"""Questions whose bounds are kept; the oldest are dropped first."""


@dataclass(slots=True)
class TiltBounds:
    """For each Θ, ε and adversary the largest tilt known to keep ε, and the smallest known to exceed it.

    The loss rises with the tilt, so an answer also holds for every smaller tilt, or for every larger one. Whoever asks
    repeatedly owns one: a stream's settings do (calibrator/ledger/device_bounds.py).
    """

    _known: dict[tuple[Theta, float, Adversary, int], tuple[float, float]] = field(default_factory=dict)

    def keeps(
        self, theta: Theta, tau: float, epsilon: float, adversary: Adversary, *, stride: int = 1
    ) -> bool:
        """Whether the loss of the tilt τ at every tick, in both directions, is at most ε under Θ."""
        key = theta, epsilon, adversary, stride
        within, beyond = self._known.get(key, (0.0, math.inf))
        if within < tau < beyond:
            # The loss to the prior adversary, never above that to the informed one, is quicker to compute.
            asked = dict.fromkeys(("prior", adversary))
            if all(theta.constant_loss(tau, tau, one, stride=stride) <= epsilon for one in asked):
                within = tau
            else:
                beyond = tau
            if key not in self._known and len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = within, beyond
        return tau <= within
