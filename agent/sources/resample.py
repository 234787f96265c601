"""Resample values that arrive at any time to ticks: the last one within a maximum age, otherwise a gap."""

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

    The value of a tick is the last one that arrived before the tick's end, unless it is then older than the
    maximum age. At most one value per tick is held, whatever the rate of the source. Ticks follow the wall clock,
    ages the monotonic clock.
    """

    def __init__(self, clock: Clock, period_ms: int, max_age_ms: int) -> None:
        self._clock = clock
        self._period_ms = period_ms
        self._max_age_ns = max_age_ms * NS
        self.arrivals = ArrivalRate(period_ms)
        self._lock = threading.Lock()
        self._arrived: deque[tuple[int, int, Value]] = deque(maxlen=HELD)
        self._held: tuple[int, int, Value] | None = None

    def offer(self, value: Value) -> None:
        """Add a value that was sampled now."""
        with self._lock:
            tick, now = tick_at(self._clock.wall(), self._period_ms), self._clock.steady()
            # Replaces an earlier value of the same tick, and values of later ticks after the clock was set back.
            while self._arrived and self._arrived[-1][0] >= tick:
                self._arrived.pop()
            self._arrived.append((tick, now, value))
            self.arrivals.note(now)

    def take(self, first: int, last: int) -> list[Value | None]:
        """The values of the ticks first … last, None for a gap. Older values are discarded."""
        period_ns = self._period_ms * NS
        values: list[Value | None] = []
        with self._lock:
            set_by = self._clock.wall() - self._clock.steady()
            arrived, held = self._arrived, self._held
            for tick in range(first, last + 1):
                while arrived and arrived[0][0] <= tick:
                    held = arrived.popleft()
                fresh = held is not None and (tick + 1) * period_ns - set_by - held[1] <= self._max_age_ns
                values.append(held[2] if held is not None and fresh else None)
            self._held = held
        return values
