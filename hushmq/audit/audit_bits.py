"""The evidence of an audit for a two-state stream: both adversaries, exact losses."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hushmq.audit.claim import Claim
from hushmq.audit.dependence import IndependenceTest
from hushmq.broker.contract.noise_message import binary_noise_of
from hushmq.broker.contract.theta_message import binary_theta_of
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss
from hushmq.pufferfish.inference.clopper_pearson import upper_confidence_bound
from hushmq.pufferfish.witness.bit_witness import Witness, best

_STATES = bytes(value & 1 for value in range(256))
_DIGITS = b"01" + bytes(254)


class BinaryAuditEvidence:
    """Counts of flips of a claim's noise, and the lower bounds on the loss that follow from them."""

    adversaries: tuple[Adversary, ...] = ("prior", "informed")
    bounds = 2
    """The number of confidence bounds of the flips: one for each of the two probabilities."""
    states = _STATES
    """A translation table from random bytes to random states."""

    def __init__(self, claim: Claim) -> None:
        self._noise, self._windows = binary_noise_of(claim.setting.noise), claim.windows
        self._corners = binary_theta_of(claim.setting.theta).worst_corners()
        self._seen, self._flipped = [0, 0], [0, 0]
        self.stated_noise = {
            "rho0": (self._noise.rho0, "a 0 is sent as 1 with this probability, as stated"),
            "rho1": (self._noise.rho1, "a 1 is sent as 0 with this probability, as stated"),
        }
        self.dependence = IndependenceTest()

    @property
    def witnesses(self) -> int:
        """The number of witnesses."""
        return 2 * len(self._corners) * len(self.adversaries)

    def chosen_witnesses(self, *, ticks: int, deviations: float) -> Iterator[tuple[Adversary, Witness]]:
        """The witnesses to count, each chosen for a sample of `ticks` ticks."""
        for q, r in self._corners:
            for adversary in self.adversaries:
                for state in (0, 1):
                    yield (
                        adversary,
                        best(q, r, self._noise, state, adversary, ticks=ticks, deviations=deviations),
                    )

    def add(self, states: bytes, outputs: bytes) -> None:
        """Counts the flips of random states, with states and outputs as bits of large integers."""
        ticks = len(states)
        x = int(states.translate(_DIGITS), 2)
        flipped = x ^ int(outputs.translate(_DIGITS), 2)
        masks = (((1 << ticks) - 1) ^ x, x)
        for state, mask in enumerate(masks):
            self._seen[state] += mask.bit_count()
            self._flipped[state] += (flipped & mask).bit_count()
        self.dependence.add(flipped, masks, ticks)

    def most(self, state: int, error: float) -> float:
        """The upper confidence bound for the probability of a flip in a state."""
        return upper_confidence_bound(self._flipped[state], self._seen[state], error)

    def by_ticks(self, error: float) -> dict[Adversary, float]:
        """The loss of the smallest tilts within the confidence bounds, plus the tilt of the device's releases."""
        rho0, rho1 = self.most(0, error), self.most(1, error)
        tau0, tau1 = (
            max(0.0, math.log((1.0 - kept) / lied)) if kept < 1.0 else 0.0
            for kept, lied in ((rho0, rho1), (rho1, rho0))
        )
        return {
            adversary: max(
                loss(
                    BinaryTheta.point(q, r),
                    tau0=tau0 + self._windows,
                    tau1=tau1 + self._windows,
                    adversary=adversary,
                )
                for q, r in self._corners
            )
            for adversary in self.adversaries
        }
