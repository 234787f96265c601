"""Where values come from. A source gives one value per elapsed tick, or None for a gap."""

from __future__ import annotations

from typing import Protocol

from agent.config import Offered, Simulate
from agent.resample import Resampler, Value
from agent.simulate import SimulatedChain
from agent.tick import Clock


class Source(Protocol):
    """A running source of one stream."""

    def take(self, first: int, last: int) -> list[Value | None]:
        """The values of the ticks first … last, each asked for once, in order."""

    def stop(self) -> None:
        """End it; nothing is taken afterwards."""


class SimulatedSource:
    """The two numbers of a simulated chain."""

    def __init__(self, section: Simulate) -> None:
        self._chain = SimulatedChain(section.q, section.r, section.seed, section.start_tick)
        self._values = (section.low, section.high)

    def take(self, first: int, last: int) -> list[Value | None]:
        start = max(first, self._chain.start_tick)
        values: list[Value | None] = [None] * (min(start, last + 1) - first)
        if start <= last:
            values += [self._values[state] for state in self._chain.states(start, last - start + 1)]
        return values

    def stop(self) -> None:
        """Nothing runs."""


class OfferedSource:
    """Values from the program that embeds the agent."""

    def __init__(self, section: Offered, clock: Clock, period_ms: int) -> None:
        self._resampler = Resampler(clock, period_ms, section.max_age_ms)
        self.offer, self.take = self._resampler.offer, self._resampler.take

    def stop(self) -> None:
        """Nothing runs."""


def open_source(section: Simulate | Offered, clock: Clock, period_ms: int) -> Source:
    """Start the source that a stream's configuration asks for."""
    if isinstance(section, Simulate):
        return SimulatedSource(section)
    return OfferedSource(section, clock, period_ms)
