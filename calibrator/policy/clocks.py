"""Time as ticks, or as strides of a stream that has one: our clock, and how far a device's may be from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hushmq.broker.contract.policy_message import StreamPolicy


@dataclass(frozen=True, slots=True)
class Clocks:
    """Our clock, in seconds since the epoch; a device's is at most `skew_s` ahead of it or behind."""

    now: Callable[[], float]
    skew_s: float

    def tick(self, stream: StreamPolicy, offset_s: float = 0.0) -> int:
        """The tick of our clock, `offset_s` seconds from now."""
        return int((self.now() + offset_s) * 1000) // stream.stride_ms

    def latest(self, stream: StreamPolicy, now: float) -> int:
        """The last tick that can be real at this time: that of the clock which is furthest ahead."""
        return int(now * 1000 + self.skew_s * 1000) // stream.stride_ms

    def first_issued(self, stream: StreamPolicy) -> int:
        """The first tick that can carry a setting issued now: that of the clock which is furthest behind."""
        return max(0, self.tick(stream, -self.skew_s))
