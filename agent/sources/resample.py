"""Resample values that arrive at any time to ticks: each tick has the last one, however old it is.

A limit to its age would tell when values came: whether a tick has a value must not depend on the data.
"""

from __future__ import annotations

import threading
from collections import deque

from hushmq.agent.sources.tick import Clock, tick_at
from hushmq.agent.watch.arrival_rate import ArrivalRate

Value = float | int | str | bool
NS = 1_000_000
HELD = 1 << 16
"""Maximum number of values held, one per tick."""


class Resampler:
    """Accepts values from any thread, and returns one per tick.

    The value of a tick is the last one that arrived before the tick's end. At most one value per tick is held,
    whatever the rate of the source. Ticks follow the wall clock, silence the monotonic clock.
    """

    def __init__(self, clock: Clock, period_ms: int, silent_after_ms: int | None = None) -> None:
        self._clock = clock
        self._period_ms = period_ms
        self.arrivals = ArrivalRate(period_ms)
        self._silent_after_ns = None if silent_after_ms is None else silent_after_ms * NS
        self._lock = threading.Lock()
        self._arrived: deque[tuple[int, Value]] = deque(maxlen=HELD)
        self._held: Value | None = None
        self._heard = clock.steady()

    def offer(self, value: Value) -> None:
        """Add a value that was sampled now."""
        with self._lock:
            tick, self._heard = tick_at(self._clock.wall(), self._period_ms), self._clock.steady()
            # Replaces an earlier value of the same tick, and values of later ticks after the clock was set back.
            while self._arrived and self._arrived[-1][0] >= tick:
                self._arrived.pop()
            self._arrived.append((tick, value))
            self.arrivals.note(self._heard)

    def take(self, first: int, last: int) -> list[Value | None]:
        """The values of the ticks first … last, None before the first value. Older values are discarded."""
        values: list[Value | None] = []
        with self._lock:
            arrived, held = self._arrived, self._held
            for tick in range(first, last + 1):
                while arrived and arrived[0][0] <= tick:
                    held = arrived.popleft()[1]
                values.append(held)
            self._held = held
        return values

    @property
    def silent_s(self) -> int | None:
        """Seconds since the last value, once they are more than configured; shown on the device only."""
        silence = self._clock.steady() - self._heard
        return None if self._silent_after_ns is None or silence < self._silent_after_ns else silence // 10**9
