"""Beats at fixed moments of the wall clock: which ticks are in one batch is a function of settings and time alone.

Beat n is at n·length + phase. The phase follows from the device's name, so that the devices of a site do not all send
at once. The batch of a beat holds the ticks that ended between the beat before and this one, however late the agent
comes to make it; the ticks of an absence are divided in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

MS = 1_000_000
LONGEST = 65_536
"""Maximum number of ticks in one batch."""


@dataclass(frozen=True, slots=True)
class BeatSchedule:
    """The beats of one device."""

    length_ms: int
    phase_ms: int = 0

    @classmethod
    def of(cls, device: str, length_ms: int) -> BeatSchedule:
        """The beats of the device with this name."""
        digest = blake2b(device.encode(), digest_size=8).digest()
        return cls(length_ms, int.from_bytes(digest) % length_ms)

    def wait_ns(self, wall_ns: int) -> int:
        """Nanoseconds from a moment to the first beat after it."""
        length = self.length_ms * MS
        return length - (wall_ns - self.phase_ms * MS) % length

    def next_tick(self, wall_ns: int, period_ms: int) -> int:
        """The tick that ran at the last beat up to a moment: the first that is not yet to be sampled."""
        return max(0, self.last_beat_ms(wall_ns)) // period_ms

    def last_beat_ms(self, wall_ns: int) -> int:
        """The last beat up to a moment, in milliseconds of the wall clock."""
        now = wall_ns // MS
        return now - (now - self.phase_ms) % self.length_ms

    def batches(self, first: int, last: int, period_ms: int) -> Iterator[tuple[int, int]]:
        """Divide the ticks first … last into those of one batch each; none is longer than LONGEST."""
        while first <= last:
            beat = -((self.phase_ms - (first + 1) * period_ms) // self.length_ms)
            ends = (beat * self.length_ms + self.phase_ms) // period_ms
            end = min(ends - 1, last, first + LONGEST - 1)
            yield first, end
            first = end + 1
