"""How many messages and bytes a device and its site exchange in a day."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hushmq.broker.contract.messages import Batch, encode
from hushmq.broker.contract.packing import bits_for, pack
from hushmq.broker.contract.policy_message import DeviceWindow, Window
from hushmq.broker.contract.topics import Topics

DAY_MS = 86_400_000
BEAT_MS = 10_000
"""The interval at which an agent makes a batch, unless it is configured otherwise (`publish.beat_ms`)."""
HEADER_BYTES = 2 + 2 + 2
"""An MQTT packet's fixed header, the length of its topic, and its identifier, of a packet of this size at most."""


class Sampled(Protocol):
    """What of a stream's policy decides about its traffic."""

    @property
    def states(self) -> Sequence[str]: ...
    @property
    def period_ms(self) -> int: ...
    @property
    def stride_ms(self) -> int: ...
    @property
    def windows(self) -> Mapping[str, Window]: ...
    @property
    def device_windows(self) -> Mapping[str, DeviceWindow]: ...


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one device publishes for one stream, and what the calibrator publishes of it, per day."""

    batches: float
    """Messages of a device."""
    bytes: float
    """Their bytes, topics and MQTT headers included, without TLS and acknowledgements."""
    releases: float
    """Releases of the cohort, and of each device where a window has one for each."""

    def as_tree(self) -> dict[str, Any]:
        """Return the figures as JSON-compatible values."""
        return {"batches": self.batches, "bytes": self.bytes, "releases": self.releases}


def traffic(
    policy: Sampled, *, stream: str = "presence", device: str = "wearable-1", beat_ms: int = BEAT_MS
) -> Traffic:
    """Return the traffic of one device under a policy, from a batch as it is encoded."""
    per_batch = max(1, round(beat_ms / policy.stride_ms))
    bits = bits_for(len(policy.states))
    tick = 1_700_000_000_000 // policy.stride_ms
    batch = Batch(
        first=tick,
        after=tick - 1,
        count=min(per_batch, 65_536),
        bits=bits,
        states=pack(bytes(min(per_batch, 65_536)), bits),
        noise=1,
    )
    topic = Topics("test").batch(device, stream)
    batches = DAY_MS / (per_batch * policy.stride_ms)
    windows = math.fsum(
        len(window.scopes) * DAY_MS / (window.ticks * policy.period_ms) for window in policy.windows.values()
    )
    windows += math.fsum(
        DAY_MS / (window.ticks * policy.period_ms) for window in policy.device_windows.values()
    )
    return Traffic(batches, batches * (HEADER_BYTES + len(topic) + len(encode(batch))), windows)
