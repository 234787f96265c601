"""The streams that a device runs: those of its configuration that the policy names, under the noise in force."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from hushmq.agent.accept_settings import Settings
from hushmq.agent.agent_config import Config
from hushmq.agent.device_windows import Closed, MadeRelease, release
from hushmq.agent.sources.resample import Value
from hushmq.agent.sources.source import OfferedSource, Source, open_source
from hushmq.agent.sources.tick import Clock
from hushmq.agent.storage.outbox import Made, Outbox
from hushmq.agent.stream import Stream
from hushmq.broker.contract.messages import StreamPolicy
from hushmq.broker.contract.problem import Problem


class Streams:
    """Owns the sources. `offer` may be called from any thread."""

    def __init__(self, config: Config, settings: Settings, outbox: Outbox, *, clock: Clock, log: Any) -> None:
        self.running: dict[str, Stream] = {}
        self.clock_set: Counter[str] = Counter()
        """By stream, how often its clock was seen to be set."""
        self._config, self._settings, self._outbox = config, settings, outbox
        self._clock, self._log = clock, log

    @property
    def periods(self) -> dict[str, int]:
        """The period of each stream that runs, in milliseconds."""
        return {name: stream.policy.period_ms for name, stream in self.running.items()}

    def follow_settings(self) -> None:
        """Bring the streams in line with the policy and the noise in force."""
        policies = self._settings.policy.streams if self._settings.policy else {}
        for name, section in self._config.streams.items():
            running = self.running.get(name)
            if running is not None and running.policy != policies.get(name):
                del self.running[name]
                if name in policies and policies[name].period_ms == running.policy.period_ms:
                    self._start(name, running.source, policies[name])
                else:
                    running.source.stop()
            if name in policies and name not in self.running:
                source = open_source(
                    section.source,
                    name=f"{self._config.device}-{name}",
                    clock=self._clock,
                    period_ms=policies[name].period_ms,
                    log=self._log.bind(stream=name),
                )
                self._start(name, source, policies[name])
            if name in self.running:
                self.running[name].use(self._settings.noise.get(name))

    def start_anew(self) -> None:
        """Go on from what the outbox now holds: no tick that it knows of is used again."""
        for name, stream in self.running.items():
            self._start(name, stream.source, stream.policy)

    def _start(self, name: str, source: Source, policy: StreamPolicy) -> None:
        """Hand out no tick of the stream at or below its watermark."""
        self.running[name] = Stream(name, source, policy, clock=self._clock, watermark=self._watermark(name))
        self.running[name].use(self._settings.noise.get(name))

    def beat(self) -> tuple[list[Made], list[MadeRelease]]:
        """Batches and releases of the ticks that have ended."""
        made: list[Made] = []
        releases: list[MadeRelease] = []
        for name, stream in self.running.items():
            beat = stream.beat(self._watermark(name))
            made += beat.made
            releases += self._release(name, stream.policy, beat.closed)
            elapsed = beat.elapsed
            if elapsed.clock != "steady":
                self.clock_set[name] += 1
                self._log.warning(f"clock set {elapsed.clock}", stream=name, next_tick=elapsed.last + 1)
            if refused := stream.newly_refused():
                self._log.warning("values refused", stream=name, count=refused)
        return made, releases

    def _release(self, name: str, policy: StreamPolicy, closed: list[Closed]) -> list[MadeRelease]:
        """Draw the noise of closed windows that were not released before."""
        made: list[MadeRelease] = []
        for window in closed:
            first, entry = self._outbox.released.get((name, window.window), (-1, 0))
            entry += 1 + sum(other.window == window.window for other in made)
            if window.first > first:
                setting = self._settings.noise[name]
                made.append(release(window, name, policy, setting, device=self._config.device, entry=entry))
        return made

    def _watermark(self, stream: str) -> int:
        book = self._outbox.books.get(stream)
        return -1 if book is None else book.watermark

    def offer(self, value: Value, stream: str | None) -> None:
        """A value, now, for a stream whose source is `offer`; before a policy names the stream it is let go."""
        if not isinstance(value, float | int | str):
            raise TypeError(f"a value is a number, a text or a truth value, not {type(value).__name__}")
        names = [name for name, section in self._config.streams.items() if section.source.kind == "offer"]
        if stream is None and len(names) == 1:
            stream = names[0]
        if stream not in names:
            raise Problem(
                f"stream {stream!r} takes no offered values; those that do: {', '.join(names) or 'none'}"
            )
        running = self.running.get(stream)
        if running is not None and isinstance(running.source, OfferedSource):
            running.source.offer(value)

    def stop(self) -> None:
        """Stop the sources, all at once: one whose other end is gone may take a moment."""
        stopping = [threading.Thread(target=stream.source.stop) for stream in self.running.values()]
        for each in stopping:
            each.start()
        for each in stopping:
            each.join()
