"""The loss of everything that the device publishes, recomputed on the device for the Θ of a noise setting.

Each form of noise says how its loss is proved (broker/contract/noise_message.py): two states exactly, more by the
certificate that comes with the setting.
"""

from __future__ import annotations

import math
from functools import lru_cache

from hushmq.broker.contract.noise_message import NoiseMessage
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.theta_message import ThetaMessage
from hushmq.pufferfish.adversary import Adversary


@lru_cache(maxsize=64)
def windows_loss(theta: ThetaMessage, windows: float, adversary: Adversary, share: float = 1.0) -> float:
    """Return the loss to those who read only the device's windows, which tilt every tick by `windows`.

    `share` is the stream's share of its account (broker/contract/account_share.py). The result is infinite when no
    bound can be proved.
    """
    if windows == 0.0:
        return 0.0
    try:
        return theta.chains.constant_loss(windows / share, windows / share, adversary)
    except ValueError:
        return math.inf  # no bound is proved against this adversary


def operator_loss(
    theta: ThetaMessage,
    noise: NoiseMessage,
    windows: float,
    adversary: Adversary,
    share: float = 1.0,
    stride: int = 1,
) -> float:
    """Return the loss to those who read the sanitized stream, one of every `stride` ticks, and the device's windows.

    It is that of the account if its other streams use as much of their shares (docs/theory-world.md, Theorem 21).

    Raises Rejected when the setting proves no loss: an invalid certificate, or an adversary that is not supported.
    """
    try:
        return noise.proven_loss(theta.chains, windows, adversary, share, stride)
    except ValueError as error:
        raise Rejected(Reason.NOT_PROVEN, str(error)) from None
