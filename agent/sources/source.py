"""The interface of a source, one value per elapsed tick or None if none is known, and how a source is opened."""

from __future__ import annotations

from typing import Any, Protocol

from hushmq.agent.sources.line_source import FollowedFile, ReplayedFile, SerialPort, StandardInput
from hushmq.agent.sources.mqtt_source import SubscribedTopic
from hushmq.agent.sources.resample import Resampler, Value
from hushmq.agent.sources.simulated_source import SimulatedChain
from hushmq.agent.sources.source_config import (
    AnySource,
    File,
    Mqtt,
    Offered,
    Serial,
    Simulate,
    SimulateStates,
    Stdin,
)
from hushmq.agent.sources.tick import Clock
from hushmq.agent.watch.arrival_rate import ArrivalRate
from hushmq.broker.contract.problem import Problem

FURTHEST = 10**8
"""Maximum number of past ticks of a simulated chain, each of which is simulated."""


class Source(Protocol):
    """A running source of one stream."""

    unreadable: int
    """The number of values so far that could not be read."""
    arrivals: ArrivalRate | None
    """When values arrive, if they come at times of their own."""

    @property
    def trouble(self) -> str | None:
        """Why no values arrive at present, in words that hold no value; None while the source works."""

    @property
    def silent_s(self) -> int | None:
        """Seconds without a value, once they are more than configured; None otherwise."""

    def take(self, first: int, last: int) -> list[Value | None]:
        """The values of the ticks first … last, None if none is known. A tick is asked for once at most, in order."""

    def stop(self) -> None:
        """Stop the source; `take` is not called afterwards."""


class SimulatedSource:
    """The values of a simulated chain."""

    unreadable = 0
    trouble: str | None = None
    arrivals: ArrivalRate | None = None
    silent_s = None

    def __init__(self, section: Simulate | SimulateStates) -> None:
        self._section = section
        self._chain: SimulatedChain | None = None
        self._values = section.values

    def take(self, first: int, last: int) -> list[Value | None]:
        if last < first:
            return []
        self._chain = self._chain or self._begin(first)
        if self._chain is None:
            return [None] * (last - first + 1)
        start = max(first, self._chain.start_tick)
        values: list[Value | None] = [None] * (min(start, last + 1) - first)
        if start <= last:
            values += [self._values[state] for state in self._chain.states(start, last - start + 1)]
        return values

    def _begin(self, first: int) -> SimulatedChain | None:
        section = self._section
        start = first if section.start_tick is None else section.start_tick
        if first - start > FURTHEST:
            self.trouble = f"start_tick is {first - start} ticks ago, at most {FURTHEST} are simulated"
            return None
        return SimulatedChain(section.transition, section.seed, start)

    def stop(self) -> None:
        """Nothing runs."""


class OfferedSource:
    """Values from the program that embeds the agent."""

    unreadable = 0
    trouble: str | None = None

    def __init__(self, resampler: Resampler) -> None:
        self.offer, self.take = resampler.offer, resampler.take
        self.arrivals: ArrivalRate | None = resampler.arrivals
        self._resampler = resampler

    @property
    def silent_s(self) -> int | None:
        return self._resampler.silent_s

    def stop(self) -> None:
        """Nothing runs."""


class NoSource:
    """The source of a stream whose source cannot be opened: no value is known, until a restart or reload."""

    unreadable = 0
    arrivals: ArrivalRate | None = None
    silent_s = None

    def __init__(self, trouble: str) -> None:
        self.trouble: str | None = trouble

    def take(self, first: int, last: int) -> list[Value | None]:
        return [None] * (last - first + 1)

    def stop(self) -> None:
        """Nothing runs."""


def open_source(section: AnySource, *, name: str, clock: Clock, period_ms: int, log: Any) -> Source:
    """Start the source that is configured; NoSource, with the reason, if it cannot be opened."""
    try:
        return _open(section, name=name, clock=clock, period_ms=period_ms, log=log)
    except Problem as problem:
        log.warning("source_failed", error=str(problem))
        return NoSource(str(problem))


def _open(section: AnySource, *, name: str, clock: Clock, period_ms: int, log: Any) -> Source:
    if isinstance(section, Simulate | SimulateStates):
        return SimulatedSource(section)
    if isinstance(section, File) and section.replay:
        return ReplayedFile(section.file, section.reader(), repeat=section.repeat)
    resampler = Resampler(clock, period_ms, section.silent_after_ms)
    match section:
        case Offered():
            return OfferedSource(resampler)
        case Stdin():
            return StandardInput(section.reader(), resampler, log)
        case File():
            return FollowedFile(section.file, section.reader(), resampler, log)
        case Serial():
            return SerialPort(section.port, section.baud, section.reader(), resampler, log)
        case Mqtt():
            return SubscribedTopic(
                section.endpoint(),
                section.topic,
                section.reader(),
                resampler,
                retained=section.retained,
                name=f"hushmq-{name}",
                log=log,
            )
