"""The running streams of a device: those in its configuration that the policy names."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from hushmq.agent.accept_settings import Settings
from hushmq.agent.agent_config import Config
from hushmq.agent.device_windows import ClosedWindow, release
from hushmq.agent.sources.beat_schedule import BeatSchedule
from hushmq.agent.sources.resample import Value
from hushmq.agent.sources.source import OfferedSource, Source, open_source
from hushmq.agent.sources.tick import Clock
from hushmq.agent.storage.outbox import MadeBatch, Outbox
from hushmq.agent.storage.outbox_releases import MadeRelease
from hushmq.agent.stream import Stream
from hushmq.agent.watch.raised_alarms import RaisedAlarms
from hushmq.agent.watch.watch_log import WatchLog
from hushmq.broker.contract.account_share import priced_streams
from hushmq.broker.contract.messages import SharedBy
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.problem import Problem


class Streams:
    """Owns the sources. `offer` may be called from any thread."""

    def __init__(self, config: Config, settings: Settings, outbox: Outbox, *, clock: Clock, log: Any) -> None:
        self.running: dict[str, Stream] = {}
        self.clock_set: Counter[str] = Counter()
        """By stream, how often the clock was set while it ran."""
        self.behind = False
        """Whether some stream has elapsed ticks that the last beat left to the next: an absence is filled in parts."""
        self._config, self._settings, self._outbox = config, settings, outbox
        self._clock, self._log = clock, log
        self._alarms = RaisedAlarms(config.folder)
        self._watch_log = WatchLog(self._alarms, log)
        self._stated: dict[str, StreamPolicy] = {}
        """By stream the policy as ops stated it; what a stream follows also depends on those that share its account."""
        self._shared_by: dict[str, SharedBy | None] = {}
        """By stream who shares its account."""

    @property
    def periods(self) -> dict[str, int]:
        """How far apart the published ticks of each stream that runs are, in milliseconds."""
        return {name: stream.policy.stride_ms for name, stream in self.running.items()}

    @property
    def publishing(self) -> bool:
        """Whether some stream has a noise setting, so that its ticks are published."""
        return any(stream.setting is not None for stream in self.running.values())

    def follow_settings(self, *, resume: bool = False) -> None:
        """Start, restart and stop streams to match the policy and the noise settings in force.

        With `resume` these are the ones that were in force when the agent ended, and the absence is filled with them:
        no tick may carry a setting that was issued after it.
        """
        policies = self._settings.streams
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
                self.running[name].use(self._settings.noise.get(name), self._watermark(name), resume=resume)

    def restart_all(self) -> None:
        """Restart every stream above the outbox's watermark, so that no tick is used again."""
        for name, stream in self.running.items():
            self._start(name, stream.source, stream.policy)
            self.running[name].use(self._settings.noise.get(name), self._watermark(name))

    def _start(self, name: str, source: Source, policy: StreamPolicy) -> None:
        """Start a stream above its watermark."""
        if self._settings.policy is not None and name in self._settings.policy.streams:
            self._stated[name] = self._settings.policy.streams[name]
            priced = priced_streams(self._settings.policy, self._config.device)[name]
            self._shared_by[name] = priced.shared_by
        self.running[name] = Stream(
            name,
            source,
            policy,
            clock=self._clock,
            device=self._config.device,
            stop_from=self._alarms.stop_from(name, self._stated[name]),
        )

    def beat(
        self, schedule: BeatSchedule, *, final: bool = False
    ) -> tuple[list[MadeBatch], list[MadeRelease]]:
        """The batches and releases of the elapsed ticks of all streams."""
        made: list[MadeBatch] = []
        releases: list[MadeRelease] = []
        self.behind = False
        for name, stream in self.running.items():
            beat = stream.beat(self._watermark(name), schedule, final=final)
            made += beat.made
            releases += self._release(stream, beat.closed)
            self._watch_log.follow(name, stream.watch, stream.source.arrivals, self._stated[name])
            elapsed = beat.elapsed
            if elapsed is None:
                continue
            self.behind |= elapsed.behind
            if elapsed.missed:
                self._log.info("ticks_filled", stream=name, ticks=elapsed.missed)
            if elapsed.clock != "steady":
                self.clock_set[name] += 1
                self._log.warning(
                    "clock_set_back" if elapsed.clock == "back" else "clock_set_forward",
                    stream=name,
                    next_tick=elapsed.last + 1,
                )
            if refused := stream.newly_refused():
                self._log.warning("values_refused", stream=name, count=refused)
        return made, releases

    def _release(self, stream: Stream, closed: list[ClosedWindow]) -> list[MadeRelease]:
        """Draw the noise of closed windows that were not released before."""
        made: list[MadeRelease] = []
        name, policy, setting = stream.name, stream.policy, stream.setting
        if setting is None:
            return made
        for window in closed:
            first, entry = self._outbox.releases.released.get((name, window.window), (None, 0))
            entry += 1 + sum(other.window == window.window for other in made)
            if first is None or window.first > first:
                device, account = self._config.device, self._shared_by.get(name)
                made.append(
                    release(window, name, policy, setting, device=device, entry=entry, account=account)
                )
        return made

    def _watermark(self, stream: str) -> int:
        balance = self._outbox.balances.get(stream)
        return -1 if balance is None else balance.watermark

    def offer(self, value: Value, stream: str | None) -> None:
        """Pass a value to a stream whose source is `offer`; discarded before a policy names the stream."""
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
        """Stop all sources in parallel: one whose peer is gone may take a while."""
        stopping = [threading.Thread(target=stream.source.stop) for stream in self.running.values()]
        for each in stopping:
            each.start()
        for each in stopping:
            each.join()
