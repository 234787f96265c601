"""tick = ⌊time / period⌋. A tick is used at most once, ever, whatever the clock does.

A Ticker returns runs that never overlap and only rise, whether the clock is set back, set forward or stands still; all
lie strictly above the durable watermark. Ticks that were missed, because the agent did not run or the clock was set
forward, are returned as such if they are not too many, and are otherwise a gap. Nothing here depends on a value.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hushmq.agent.sources.beat_schedule import LONGEST, BeatSchedule

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
    missed: int
    """How many of them, from the first on, were missed: they have no value."""
    behind: bool
    """Whether more have ended: at most LONGEST are returned at once."""
    clock: Literal["steady", "back", "forward"]

    @property
    def count(self) -> int:
        return self.last - self.first + 1


class Ticker:
    """Returns each elapsed tick of one stream once.

    `fill_ticks` is the largest number of missed ticks that are returned; with `resume`, those since the watermark are
    among them.
    """

    def __init__(
        self, clock: Clock, period_ms: int, watermark: int, fill_ticks: int, *, resume: bool
    ) -> None:
        self._clock, self._period_ms, self._fill_ticks = clock, period_ms, fill_ticks
        self._wall, self._steady = clock.wall(), clock.steady()
        # The tick in which the agent starts is one of the missed: its value may have come and gone before.
        self._live = max(watermark, tick_at(self._wall, period_ms)) + 1
        self._next = watermark + 1 if resume and watermark >= 0 else self._live
        self._skip_long_absence()
        self._back = False

    def _skip_long_absence(self) -> None:
        """Return no missed tick where they are too many: to return some of them would hide nothing."""
        if self._live - self._next > self._fill_ticks:
            self._next = self._live

    def _part_end(self, schedule: BeatSchedule) -> int:
        """The end of the ticks that are returned at once: between two batches, wherever there is such a place."""
        longest = self._next + LONGEST
        between = schedule.next_tick(longest * self._period_ms * 1_000_000, self._period_ms)
        return between if between > self._next else longest

    def elapsed(self, schedule: BeatSchedule, *, final: bool = False) -> Elapsed:
        """The next ticks that ended up to the last beat of the schedule; the final call returns those since, too."""
        wall, steady = self._clock.wall(), self._clock.steady()
        gained = (wall - self._wall) - (steady - self._steady)
        self._wall, self._steady = wall, steady
        now = tick_at(wall, self._period_ms)
        forward = gained >= JUMP_NS and now > self._next
        if forward:
            self._live = max(self._live, now)
            self._skip_long_absence()
        behind = now < self._next - 1
        newly_behind, self._back = behind and not self._back, behind
        end = now if final else schedule.next_tick(wall, self._period_ms)
        first, self._next = self._next, max(self._next, min(end, self._part_end(schedule)))
        return Elapsed(
            first,
            self._next - 1,
            missed=max(0, min(self._live, self._next) - first),
            behind=self._next < end,
            clock="forward" if forward else "back" if newly_behind else "steady",
        )
