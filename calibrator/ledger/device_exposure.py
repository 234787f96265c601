"""A device with device-specific settings: its Θ, and all noise that its ticks may carry."""

from __future__ import annotations

from dataclasses import dataclass

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.protocols import Noise, Theta

UNPROVED = 1e6
"""The finite number of nats, beyond every budget, that is reported where no loss is proved."""


@dataclass(frozen=True, slots=True)
class DeviceExposure:
    """What an adversary may know of one device: that its chain lies in Θ, and the noise of its sanitized states.

    `noises` are all that its states can carry: the settings of the cohort and the device-specific ones. The latter are
    `device_noises`, each with the first tick that can carry it.
    """

    device: str
    theta: Theta
    noises: tuple[Noise, ...]
    device_noises: tuple[tuple[int, Noise], ...] = ()

    def public_loss(self, tau: float, policy: StreamPolicy) -> float:
        """Upper bound on the public loss of the device if no tick's true state is tilted by more than τ.

        The loss rises with every tick's tilt, so that of the constant timeline bounds it.
        """
        return min(UNPROVED, self.theta.constant_loss(tau, tau, policy.adversary, stride=policy.stride))

    def operator_loss(self, policy: StreamPolicy, device_tilt: int = 0) -> float:
        """Upper bound on the operator's loss of the device, whichever of its settings it used at which tick."""
        added = device_tilt / NANO
        tau0, tau1 = (max(taus) + added for taus in zip(*(noise.tilts for noise in self.noises), strict=True))
        loss = self.theta.constant_loss(tau0, tau1, policy.adversary, stride=policy.stride)
        return min(UNPROVED, loss)
