"""What is asked for: streams, devices, cohorts; and what follows without measuring: messages, bytes, rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hushmq.broker.contract.messages import Counted, Seen, encode
from hushmq.broker.contract.policy_message import DeviceWindow, StreamPolicy, Window
from hushmq.broker.contract.topics import Topics
from hushmq.broker.forecast.message_traffic import DAY_MS, HEADER_BYTES, traffic

ACKNOWLEDGED = 4
"""Bytes of a PUBACK."""
SEEN_S = 1.0
"""A calibrator says `seen` to a device at most so often (`seen_s`)."""
DEVICE = "wearable-0000001"
"""A name of common length."""


@dataclass(frozen=True, slots=True)
class StreamLoad:
    """One stream of every device."""

    name: str
    states: Sequence[str]
    period_ms: int
    stride: int = 1
    windows: Mapping[str, Window] = field(default_factory=dict)
    device_windows: Mapping[str, DeviceWindow] = field(default_factory=dict)

    @property
    def stride_ms(self) -> int:
        return self.period_ms * self.stride

    @property
    def longest_ms(self) -> int:
        """The longest window: so long counted states are kept."""
        return max((one.ticks * self.period_ms for one in self.windows.values()), default=0)


def of_policy(name: str, policy: StreamPolicy) -> StreamLoad:
    """A stream as a policy has it."""
    return StreamLoad(
        name, policy.states, policy.period_ms, policy.stride, policy.windows, policy.device_windows
    )


@dataclass(frozen=True, slots=True)
class Daily:
    """What the devices of a fleet make in a day, all streams added up."""

    batches: float
    states: float
    wire_bytes: float
    """Between devices and broker, and broker and calibrators; MQTT with acknowledgements, without TLS and TCP."""
    entries: float
    """Rows of the ledger, for all cohorts."""
    releases: float
    """Rows of releases, and messages."""
    device_releases: float
    """Of these, those that are of one device."""
    window_devices: float
    """Devices counted in windows of the cohort."""
    held_batches: float
    """Counted batches that wait for their windows to close."""
    held_states: float
    states_each: float
    """States of a stream: the most of any."""


def daily(streams: Sequence[StreamLoad], *, devices: int, cohorts: int, beat_ms: int) -> Daily:
    """Count one day. A window without a device for each is one entry and one release; with one, as many as devices."""
    batches = states = wire = entries = releases = of_devices = counted = held = held_states = 0.0
    for one in streams:
        mine = traffic(one, stream=one.name, device=DEVICE, beat_ms=beat_ms)
        batches += mine.batches
        states += DAY_MS / one.stride_ms
        seen = min(mine.batches, DAY_MS / (1000 * SEEN_S))
        wire += 2 * (mine.bytes + mine.batches * ACKNOWLEDGED + seen * (_seen_bytes(one) + ACKNOWLEDGED))
        for window in one.windows.values():
            each = DAY_MS / (window.ticks * one.period_ms)
            for scope in window.scopes:
                entries += each
                if scope == "cohort":
                    releases += each
                    counted += each
                else:
                    of_devices += each
        held += mine.batches * one.longest_ms / DAY_MS
        held_states += one.longest_ms / one.stride_ms
    return Daily(
        batches=devices * batches,
        states=devices * states,
        wire_bytes=devices * wire,
        entries=cohorts * entries,
        releases=cohorts * releases + devices * of_devices,
        device_releases=devices * of_devices,
        window_devices=devices * counted,
        held_batches=devices * held,
        held_states=devices * held_states,
        states_each=max(len(one.states) for one in streams),
    )


def _seen_bytes(stream: StreamLoad) -> int:
    tick = 1_700_000_000_000 // stream.stride_ms
    seen = Seen(streams={stream.name: Counted(highest=tick)})
    return HEADER_BYTES + len(Topics("cohort-0001").seen(DEVICE)) + len(encode(seen))
