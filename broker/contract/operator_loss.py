"""The loss of everything that the device publishes, recomputed on the device for the Θ of a noise setting.

Two states: the exact loss of a constant tilt at every tick, for ever (docs/theory.md, Theorems 2 and 4). More than two:
the loss that the setting's certificate proves (docs/theory-k.md, Theorem 8), which the device verifies.
"""

from __future__ import annotations

import math
from functools import lru_cache

from hushmq.broker.contract.noise_message import BinaryNoiseMessage, CategoricalNoiseMessage
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.theta_message import BinaryThetaMessage, CategoricalThetaMessage
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.stream_loss import loss
from hushmq.pufferfish.categorical.contraction import certificate_for, certified_loss
from hushmq.pufferfish.categorical.emission import tilt_of


@lru_cache(maxsize=64)
def windows_loss(
    theta: BinaryThetaMessage | CategoricalThetaMessage, windows: float, adversary: Adversary
) -> float:
    """Return the loss to those who read only the device's windows, which tilt every tick by `windows`.

    The result is infinite when no bound can be proved.
    """
    if windows == 0.0:
        return 0.0
    if isinstance(theta, BinaryThetaMessage):
        return loss(theta.chains, tau0=windows, tau1=windows, adversary=adversary)
    try:
        return certified_loss(theta.chains, certificate_for(theta.chains, windows))
    except ValueError:
        return math.inf  # the chains of Θ mix too slowly for any certificate


def operator_loss(
    theta: BinaryThetaMessage | CategoricalThetaMessage,
    noise: BinaryNoiseMessage | CategoricalNoiseMessage,
    windows: float,
    adversary: Adversary,
) -> float:
    """Return the loss to those who read the sanitized stream and the device's windows.

    Raises Rejected when the setting proves no loss: an invalid certificate, or an adversary that is not supported.
    """
    if isinstance(theta, BinaryThetaMessage) and isinstance(noise, BinaryNoiseMessage):
        flips = noise.noise
        return loss(theta.chains, tau0=flips.tau0 + windows, tau1=flips.tau1 + windows, adversary=adversary)
    if (
        isinstance(theta, CategoricalThetaMessage)
        and isinstance(noise, CategoricalNoiseMessage)
        and adversary == "prior"
    ):
        proof = noise.certificate.proof
        tilt = tilt_of(noise.emission) + windows
        if not tilt <= proof.tau:
            raise Rejected(
                Reason.NOT_PROVEN,
                f"every tick is tilted by {tilt:.6g}, the certificate is for {proof.tau:.6g}",
            )
        try:
            return certified_loss(theta.chains, proof)
        except ValueError as error:
            raise Rejected(Reason.NOT_PROVEN, f"the certificate: {error}") from None
    raise Rejected(Reason.NOT_PROVEN, f"no loss can be proved against the {adversary} adversary")
