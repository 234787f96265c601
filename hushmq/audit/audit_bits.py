"""How a stream of two states is looked at: both adversaries, exact losses."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hushmq.audit.claim import Claim
from hushmq.audit.dependence import Dependence
from hushmq.broker.contract.noise_message import flips_of
from hushmq.broker.contract.theta_message import box_of
from hushmq.pufferfish.binary.stream_loss import Adversary, Box, loss
from hushmq.pufferfish.inference.clopper_pearson import highest
from hushmq.pufferfish.witness.bit_witness import Witness, best

_STATES = bytes(value & 1 for value in range(256))
_DIGITS = b"01" + bytes(254)


class Bits:
    """What is counted of a claim about bits, and what that shows."""

    adversaries: tuple[Adversary, ...] = ("prior", "informed")
    bounds = 2
    """Of the flips: one for each of the two probabilities."""
    states = _STATES
    """From a random byte to a random state."""

    def __init__(self, claim: Claim) -> None:
        self._noise, self._windows = flips_of(claim.setting.noise), claim.windows
        self._corners = box_of(claim.setting.theta).worst()
        self._seen, self._flipped = [0, 0], [0, 0]
        self.dependence = Dependence()

    @property
    def witnesses(self) -> int:
        """How many there will be."""
        return 2 * len(self._corners) * len(self.adversaries)

    def telling(self, *, ticks: int, deviations: float) -> Iterator[tuple[Adversary, Witness]]:
        """The witnesses, for so many ticks each."""
        for q, r in self._corners:
            for adversary in self.adversaries:
                for state in (0, 1):
                    yield (
                        adversary,
                        best(q, r, self._noise, state, adversary, ticks=ticks, deviations=deviations),
                    )

    def add(self, states: bytes, outputs: bytes) -> None:
        """Count one stretch of random states, as bits of large numbers."""
        ticks = len(states)
        x = int(states.translate(_DIGITS), 2)
        flipped = x ^ int(outputs.translate(_DIGITS), 2)
        masks = (((1 << ticks) - 1) ^ x, x)
        for state, mask in enumerate(masks):
            self._seen[state] += mask.bit_count()
            self._flipped[state] += (flipped & mask).bit_count()
        self.dependence.add(flipped, masks, ticks)

    def most(self, state: int, error: float) -> float:
        """What the probability of a flip in that state is not above, but with that error."""
        return highest(self._flipped[state], self._seen[state], error)

    def by_ticks(self, error: float) -> dict[Adversary, float]:
        """The loss of the smallest tilts that the flips leave possible, and of the windows beside the stream."""
        rho0, rho1 = self.most(0, error), self.most(1, error)
        tau0, tau1 = (
            max(0.0, math.log((1.0 - kept) / lied)) if kept < 1.0 else 0.0
            for kept, lied in ((rho0, rho1), (rho1, rho0))
        )
        return {
            adversary: max(
                loss(
                    Box.point(q, r), tau0=tau0 + self._windows, tau1=tau1 + self._windows, adversary=adversary
                )
                for q, r in self._corners
            )
            for adversary in self.adversaries
        }
