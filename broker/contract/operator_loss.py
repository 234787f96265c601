"""The loss of what the device makes from every tick, recomputed here under the Θ it is asked to honour.

Two states: the loss itself, for an endless constant tilt (docs/theory.md, Theorems 2 and 4). More: the loss that a
certificate proves (docs/theory-k.md, Theorem 8); the device verifies a certificate and takes nobody's word for it.
"""

from __future__ import annotations

import math
from functools import lru_cache

from hushmq.broker.contract.noise_message import Emission, Flips
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.theta_message import BinaryTheta, IntervalTheta
from hushmq.pufferfish.binary.stream_loss import Adversary, loss
from hushmq.pufferfish.categorical.contraction import certificate_for, certified_loss
from hushmq.pufferfish.categorical.emission import tilt_of


@lru_cache(maxsize=64)
def windows_loss(theta: BinaryTheta | IntervalTheta, windows: float, adversary: Adversary) -> float:
    """The loss to whoever reads only the device's windows, which tilt every tick by `windows`."""
    if windows == 0.0:
        return 0.0
    if isinstance(theta, BinaryTheta):
        return loss(theta.chains, tau0=windows, tau1=windows, adversary=adversary)
    try:
        return certified_loss(theta.chains, certificate_for(theta.chains, windows))
    except ValueError:
        return math.inf  # Θ forgets too slowly for any bound


def operator_loss(
    theta: BinaryTheta | IntervalTheta, noise: Flips | Emission, windows: float, adversary: Adversary
) -> float:
    """The loss to whoever reads the stream and the windows; Rejected where the setting does not prove any."""
    if isinstance(theta, BinaryTheta) and isinstance(noise, Flips):
        flips = noise.noise
        return loss(theta.chains, tau0=flips.tau0 + windows, tau1=flips.tau1 + windows, adversary=adversary)
    if isinstance(theta, IntervalTheta) and isinstance(noise, Emission) and adversary == "prior":
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
    raise Rejected(Reason.NOT_PROVEN, f"nothing is promised here against the {adversary} adversary")
