"""Notice that a source delivers its readings at a slower rate of its own, so that neighbouring ticks repeat one.

Readings that arrive at even intervals of several ticks are refreshed on a schedule: what lies between is not the state
of those ticks but a copy of the last one, and no chain in Θ repeats itself so regularly. Readings that arrive on change
come at uneven intervals, and holding the last one is right. The intervals stay in memory.
"""

from __future__ import annotations

from collections import deque

INTERVALS = 6
"""How many intervals in a row must be alike."""
ALIKE = 0.25
"""How far each may be from the median, as a share of it."""
MS = 1_000_000


class ArrivalRate:
    """The intervals between the readings of one source. One thread calls `note`; any may read."""

    def __init__(self, period_ms: int) -> None:
        self.every_ms: int | None = None
        """The interval at which readings arrive, if it is even and at least two periods."""
        self._period_ns = period_ms * MS
        self._last: int | None = None
        self._intervals: deque[int] = deque(maxlen=INTERVALS)

    def note(self, steady_ns: int) -> None:
        """Note that a reading arrived at this time of the monotonic clock."""
        last, self._last = self._last, steady_ns
        if last is None:
            return
        interval = steady_ns - last
        if interval < 2 * self._period_ns:
            self._intervals.clear()
            self.every_ms = None
            return
        self._intervals.append(interval)
        found = sorted(self._intervals)
        median = found[len(found) // 2]
        even = len(found) == INTERVALS and found[-1] - median <= ALIKE * median >= median - found[0]
        self.every_ms = round(median / MS) if even else None

    def __repr__(self) -> str:
        return "ArrivalRate()"


def repeated_reading(every_ms: int, period_ms: int) -> str:
    """What to say of readings that arrive this seldom."""
    return (
        f"readings arrive every {every_ms / 1000:g} s, the period is {period_ms / 1000:g} s: neighbouring ticks repeat "
        f"one reading; give the stream period_ms = {every_ms} (under a new name), or a Θ with lower q and r"
    )
