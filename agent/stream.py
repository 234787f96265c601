"""The pipeline of one stream: elapsed ticks → values → states → perturbed batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hushmq.agent.device_windows import ClosedWindow, WindowCounter
from hushmq.agent.discretise import discretiser
from hushmq.agent.perturb import Mechanism
from hushmq.agent.sources.source import Source
from hushmq.agent.sources.tick import Clock, Elapsed, Ticker
from hushmq.agent.storage.outbox import MadeBatch
from hushmq.agent.watch.arrival_rate import repeated_reading
from hushmq.agent.watch.stream_watch import StreamWatch
from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.policy_message import StreamPolicy


@dataclass(frozen=True, slots=True)
class Beat:
    """The result of one beat of one stream."""

    elapsed: Elapsed
    made: list[MadeBatch]
    closed: list[ClosedWindow]


class Stream:
    """One stream under one policy, with the noise setting now in force."""

    def __init__(
        self,
        name: str,
        source: Source,
        policy: StreamPolicy,
        *,
        clock: Clock,
        watermark: int,
        outside: bool = False,
    ) -> None:
        self.name = name
        self.policy = policy
        self.source = source
        self._ticker = Ticker(clock, policy.period_ms, watermark)
        self._discretiser = discretiser(policy)
        self._mechanism: Mechanism | None = None
        self.watch = StreamWatch(policy, outside=outside)
        self._windows = [
            WindowCounter(window, section.ticks, len(policy.states))
            for window, section in policy.device_windows.items()
        ]
        self._refused = source.unreadable

    def use(self, setting: NoiseSetting | None) -> None:
        """Perturb with this setting from the next beat on; with None, not at all."""
        if setting is None:
            self._mechanism = None
        elif self._mechanism is None or self._mechanism.setting != setting:
            self._mechanism = Mechanism(setting)
            self.watch.follow(setting.theta)

    @property
    def values_refused(self) -> int:
        """The number of values so far that could not be read, or that match no state of the policy."""
        return self.source.unreadable + self._discretiser.refused

    def newly_refused(self) -> int:
        """The number of values refused since the last call."""
        before, self._refused = self._refused, self.values_refused
        return self._refused - before

    @property
    def repeated_readings(self) -> str | None:
        """Why neighbouring ticks repeat one reading, and the remedy; None where they do not."""
        arrivals = self.source.arrivals
        every_ms = None if arrivals is None else arrivals.every_ms
        return None if every_ms is None else repeated_reading(every_ms, self.policy.period_ms)

    def beat(self, watermark: int) -> Beat:
        """The batches and closed windows of the elapsed ticks; without a noise setting the ticks are a gap."""
        elapsed = self._ticker.elapsed()
        values = self.source.take(elapsed.first, elapsed.last)
        if self._mechanism is None:
            return Beat(elapsed, [], [])
        states: Sequence[int | None] = self._discretiser.states(values)
        self.watch.compare(elapsed.first, states)
        if self.watch.stopped(elapsed.first):
            return Beat(elapsed, [], [])
        states = self.watch.substitutes(len(states)) or states
        after = watermark if watermark >= 0 else None
        made = self._mechanism.batches(self.name, elapsed.first, states, after)
        closed = [window for counter in self._windows for window in counter.add(elapsed.first, states)]
        return Beat(elapsed, made, closed)
