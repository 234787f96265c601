"""The largest tilt on sanitized states that keeps the public budget for ever, behind given noises."""

from __future__ import annotations

from collections.abc import Iterable

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.models.chain_model import MARGIN
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.protocols import Noise, Theta
from hushmq.pufferfish.window_method import Method

TILTED: frozenset[Method] = frozenset({"least-noise", "tilted-quilt"})
"""Methods that allow every tilt which the ledger prices within ε."""
LARGEST_TILT = 8.0
"""Upper bound on a release's tilt: it has a little noise even where the stream alone is within the public budget."""


def allowed(
    stream: StreamPolicy,
    method: Method,
    theta: Theta,
    noises: Iterable[Noise],
    most: float,
    device_tilt: int,
) -> float:
    """The largest tilt on sanitized states, up to `most`, that keeps ε of the public behind all of these noises.

    On true states it is the stream's share of what its account may be tilted by (docs/theory-world.md, Theorem 22).
    """
    whole = theta.window_tilt(method, stream.epsilon.public - MARGIN, stream.adversary, stride=stream.stride)
    tau = stream.tilt_share * whole - device_tilt / NANO
    return min([most, *(noise.release_tilt(tau) for noise in noises)]) if tau > 0 else 0.0
