"""tick = ⌊time / period⌋. A tick is used at most once, ever, whatever the clock does.

A Ticker returns runs that never overlap and only rise, whether the clock is set back, set forward or stands still; the
first one lies strictly above both the durable watermark and the tick in which the agent started. Ticks that the clock
skipped are a gap: no sample was taken in them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

JUMP_NS = 2_000_000_000
"""The wall clock gaining this much on the monotonic one between two calls was set, not slewed."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The wall clock and the monotonic clock of a device, in nanoseconds."""

    wall: Callable[[], int] = time.time_ns
    steady: Callable[[], int] = time.monotonic_ns


def tick_at(wall_ns: int, period_ms: int) -> int:
    """The tick that contains a moment."""
    return wall_ns // (period_ms * 1_000_000)


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Ticks that have ended since the last call (none when first > last), and whether the clock was set."""

    first: int
    last: int
    clock: Literal["steady", "back", "forward"]


class Ticker:
    """Returns each elapsed tick of one stream once."""

    def __init__(self, clock: Clock, period_ms: int, watermark: int | None) -> None:
        self._clock = clock
        self._period_ms = period_ms
        self._wall, self._steady = clock.wall(), clock.steady()
        self._next = max(-1 if watermark is None else watermark, tick_at(self._wall, period_ms)) + 1
        self._back = False

    def elapsed(self) -> Elapsed:
        """The ticks that ended since the last call, without the current one."""
        wall, steady = self._clock.wall(), self._clock.steady()
        gained = (wall - self._wall) - (steady - self._steady)
        self._wall, self._steady = wall, steady
        now = tick_at(wall, self._period_ms)
        if gained >= JUMP_NS:
            self._next = max(self._next, now)
            return Elapsed(self._next, self._next - 1, "forward")
        behind = now < self._next - 1
        newly_behind, self._back = behind and not self._back, behind
        first, self._next = self._next, max(self._next, now)
        return Elapsed(first, self._next - 1, "back" if newly_behind else "steady")
