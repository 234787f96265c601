"""The agent's main loop. One thread does all the work, on a fixed beat; other threads only post functions to it.

At each beat every elapsed tick is sampled, discretised, perturbed and committed to the outbox. Its bytes are handed to
the connection when the next beat begins: the moment at which they leave is that of a beat, whatever drawing the noise
and storing the batch took. Pushed settings, acknowledgements and `seen` are handled between beats, in order of arrival;
no value of a source makes the loop wake up.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from hushmq.agent.accept_settings import Kept, Settings, Trust
from hushmq.agent.agent_config import Config
from hushmq.agent.device_report import Report
from hushmq.agent.device_status import report, status
from hushmq.agent.publish import Publisher
from hushmq.agent.sources.beat_schedule import BeatSchedule
from hushmq.agent.sources.resample import HELD, Value
from hushmq.agent.sources.tick import Clock, tick_at
from hushmq.agent.status_socket import StatusSocket
from hushmq.agent.storage.folder_lock import lock
from hushmq.agent.storage.outbox import MadeBatch, NotStoredError, Outbox
from hushmq.agent.storage.outbox_releases import MadeRelease
from hushmq.agent.streams import Streams
from hushmq.broker.contract.messages import Counted, Seen, Status, decode, encode
from hushmq.broker.contract.problem import Problem, Rejected
from hushmq.broker.contract.topics import Topics, parse
from hushmq.broker.mqtt.connection import Connection, Offline, Will
from hushmq.broker.service.log import logger
from hushmq.broker.service.systemd import Systemd

STOP_S = 3.5
"""Seconds within which a stop is complete, whatever the brokers do."""
AHEAD_S = 3600
"""How far ahead of this clock another's may run: a tick beyond it cannot have been counted, whatever `seen` says."""
FRESH_MS = 30_000
"""So long after a beat all ticks since then may carry a setting that has just come: the calibrator allows for clocks
that differ by a minute."""
SEEN_S = 3.0
"""So long after the first connection of a folder that was in use, the retained `seen` has arrived if there is one."""
MISSED_BEATS = 3
"""The watchdog is fed while at least one of this many beats was committed."""


class AgentDaemon:
    """One device. `run` blocks until `stop` or `reload`, which a signal handler or another thread may call."""

    def __init__(
        self,
        config: Config,
        *,
        log: Any | None = None,
        clock: Clock | None = None,
        reload: Callable[[], Config] | None = None,
        systemd: Systemd | None = None,
    ) -> None:
        self._config, self._clock, self._load = config, clock or Clock(), reload
        self._log = log if log is not None else logger(config.log.level, config.log.form)
        self._topics = Topics(config.cohort)
        self._systemd = systemd if systemd is not None else Systemd()
        self._posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = False
        self._successor: Config | None = None
        self._seen: dict[str, Counted] = {}
        self._settings_changed = False
        self._status_changed = True
        self._status_at = 0.0
        self._status_schedule = BeatSchedule.of(config.device, config.publish.status_ms)
        self._status_moment = self._status_schedule.last_beat_ms(self._clock.wall())
        self._committed_at = time.monotonic()
        self._not_stored = 0
        self._leave_by = 0.0
        with ExitStack() as opened:
            opened.callback(os.close, lock(config.folder))
            self._outbox = Outbox(
                config.folder, max_bytes=config.outbox.max_bytes, max_age_s=config.outbox.max_age_s
            )
            opened.callback(self._outbox.close)
            self._settings = Settings(
                config.folder,
                Trust.of(config.trust),
                cohort=config.cohort,
                device=config.device,
                streams=config.streams,
            )
            self._streams = Streams(config, self._settings, self._outbox, clock=self._clock, log=self._log)
            self._connection = self._connect(config)
            opened.callback(self._disconnect)
            opened.callback(StatusSocket(config.folder, self.report).stop)
            self.metrics_port: int | None = None
            """The port `/metrics` is served on."""
            if config.metrics.port is not None:
                from hushmq.agent.metrics_server import serve_metrics  # noqa: PLC0415  # few devices need it

                server = serve_metrics(config.metrics.host, config.metrics.port, self.report)
                opened.callback(server.stop)
                self.metrics_port = server.port
            self._opened = opened.pop_all()
        self._wait_for_seen: float | None = math.inf if self._outbox.balances else None
        """Until when nothing is sent unless `seen` has come, on the monotonic clock; None once it may be."""
        self._used_before = {name: balance.watermark for name, balance in self._outbox.balances.items()}
        """The highest tick that the folder had used when it was opened, by stream."""
        self._publisher = Publisher(
            self._outbox,
            self._connection,
            self._topics,
            device=config.device,
            window=config.publish.window,
            resend_s=config.publish.resend_ms / 1000,
            post=self._posted.put,
        )

    def _connect(self, config: Config) -> Connection:
        return Connection(
            endpoints=config.broker.endpoints(),
            client_id=f"{config.cohort}-{config.device}",
            subscriptions=[
                self._topics.policy,
                *(self._topics.noise(stream) for stream in config.streams),
                *(self._topics.noise(stream, config.device) for stream in config.streams),
                self._topics.seen(config.device),
            ],
            on_message=lambda topic, payload, _: self._posted.put(partial(self._on_message, topic, payload)),
            on_change=lambda connected: self._posted.put(partial(self._on_change, connected)),
            subscribe_twice=True,
            will=None
            if config.publish.hidden
            else Will(self._topics.status(config.device), encode(Status(online=False))),
            log=self._log,
        )

    def run(self) -> Config | None:
        """Run until `stop` or `reload`, then flush and disconnect. Returns the new configuration after a reload."""
        self._log.info(
            "agent_started", device=self._config.device, cohort=self._config.cohort, pid=os.getpid()
        )
        try:
            if self._outbox.set_aside is not None:
                self._log.error("outbox_corrupt", set_aside=str(self._outbox.set_aside))
            if self._outbox.backup is not None:
                self._log.info("outbox_upgraded", backup=str(self._outbox.backup))
            self._load_settings(Kept.FOLLOWED)
            self._streams.follow_settings(resume=True)
            self._settings_changed = self._load_settings(Kept.RECEIVED)
            self._connection.start()
            self._systemd.notify("READY=1")
            self._loop()
            self._systemd.notify("RELOADING=1" if self._successor else "STOPPING=1")
            self._finish()
        finally:
            self._leave_by = self._leave_by or time.monotonic() + STOP_S
            self._streams.stop()
            self._opened.close()
        self._log.info("agent_stopped", device=self._config.device)
        return self._successor

    def stop(self) -> None:
        """End `run`."""
        self._posted.put(self._on_stop)

    def reload(self) -> None:
        """Re-read the configuration and end `run` with it; an invalid one is logged, and the agent continues."""
        self._posted.put(self._on_reload)

    def offer(self, value: Value, stream: str | None = None) -> None:
        """Offer a value, sampled now, for a stream whose source is `offer`; with one such stream no name is needed.

        Any thread may call it. Values offered before a policy names the stream are discarded.
        """
        self._streams.offer(value, stream)

    def report(self) -> Report | None:
        """The state of the device, for another thread; None when the loop does not answer within a second."""
        answer: SimpleQueue[Report] = SimpleQueue()
        self._posted.put(lambda: answer.put(self._report()))
        try:
            return answer.get(timeout=1)
        except Empty:
            return None

    def _loop(self) -> None:
        longest = self._systemd.watchdog_s / 4 or self._schedule.length_ms / 1000
        due = self._next_beat()
        while not self._stopping:
            self._handle_posted(0 if self._streams.behind else min(due - time.monotonic(), longest))
            now = time.monotonic()
            if now >= due:
                self._send(now, new=True)
                self._publish_status(now, on_beat=True)
                self._beat()
                due = self._next_beat()
            elif self._streams.behind:
                self._beat()
            if self._settings_changed:
                self._follow_settings()
            self._send(now)
            self._publish_status(now)
            beats_s = MISSED_BEATS * self._schedule.length_ms / 1000
            moving = now - self._committed_at <= beats_s + longest
            self._systemd.feed(healthy=moving and self._connection.alive)

    @property
    def _schedule(self) -> BeatSchedule:
        """The beats, shortened if one would span more ticks than a source can hold values for."""
        periods = [one.policy.period_ms for one in self._streams.running.values()]
        shortest = min([self._config.publish.beat_ms, *(HELD // 2 * period for period in periods)])
        return BeatSchedule.of(self._config.device, shortest)

    def _next_beat(self) -> float:
        """The moment of the next beat on the monotonic clock."""
        return time.monotonic() + self._schedule.wait_ns(self._clock.wall()) / 1e9

    def _handle_posted(self, wait_s: float) -> None:
        """Run the posted functions, waiting up to this many seconds for the first."""
        try:
            self._posted.get(timeout=max(0.0, wait_s))()
            while not self._stopping:
                self._posted.get_nowait()()
        except Empty:
            pass

    def _beat(self, *, final: bool = False) -> None:
        self._commit(*self._streams.beat(self._schedule, final=final))

    def _commit(self, made: list[MadeBatch], releases: list[MadeRelease] | None = None) -> None:
        before = {
            name: (balance.buffered, balance.dropped) for name, balance in self._outbox.balances.items()
        }
        seen, self._seen = self._seen, {}
        delivered, self._publisher.delivered = sorted(self._publisher.delivered), set()
        try:
            self._outbox.commit(
                made,
                periods=self._streams.periods,
                seen=seen,
                now_ms=self._clock.wall() // 1_000_000,
                releases=releases or [],
                delivered=delivered,
            )
        except NotStoredError as error:
            self._seen = seen | self._seen
            self._publisher.delivered |= set(delivered)
            ticks = sum(batch.last - batch.first + 1 for batch in made)
            self._not_stored += ticks
            self._log.error(
                "outbox_disk_full" if error.disk_full else "outbox_not_written",
                error=str(error),
                ticks_not_stored=ticks,
            )
            return
        except sqlite3.DatabaseError:
            self._recover()
        self._committed_at = time.monotonic()
        if self._outbox.mark_error is not None:
            self._log.error("high_water_mark_not_written", error=self._outbox.mark_error)
        for name, (buffered, dropped) in before.items():
            balance = self._outbox.balances[name]
            if balance.dropped > dropped:
                self._log.warning("ticks_dropped", stream=name, ticks=balance.dropped - dropped)
            self._status_changed |= balance.dropped != dropped
            if balance.dropped != dropped or balance.buffered < buffered:
                self._publisher.forgotten()

    def _send(self, now: float, *, new: bool = False) -> None:
        """Send what may leave; with `new`, also what the last beat stored.

        After a start with a folder that was in use, nothing leaves before `seen` has shown that it is no older image.
        """
        if self._wait_for_seen is not None:
            if now < self._wait_for_seen:
                return
            self._wait_for_seen = None
        try:
            if new:
                self._publisher.allow()
            self._publisher.pump(now)
        except sqlite3.OperationalError as error:
            self._log.error("outbox_unreadable", error=str(error))
        except sqlite3.DatabaseError:
            self._recover()

    def _recover(self) -> None:
        """Start a new outbox after corruption; the ticks of this beat were not stored and are never used again."""
        self._outbox.recover()
        self._publisher.allow()
        self._publisher.reconnected()
        self._log.error("outbox_corrupt", set_aside=str(self._outbox.set_aside))
        self._streams.restart_all()

    def _periods(self) -> dict[str, int]:
        return {name: balance.period_ms for name, balance in self._outbox.balances.items()}

    def _on_stop(self) -> None:
        self._stopping = True

    def _on_reload(self) -> None:
        try:
            self._successor = self._load() if self._load else self._config
        except Problem as problem:
            self._log.error("configuration_refused", problem=str(problem))
        else:
            self._stopping = True

    def _on_message(self, topic: str, payload: bytes) -> None:
        address = parse(topic)
        try:
            if address is None:
                return
            if address.kind == "seen":
                self._on_seen(decode(Seen, payload))
            elif self._settings.offer(address, payload, self._periods()):
                self._status_changed = True
                self._log.info("setting_applied", topic=topic)
                self._follow_settings()
        except Rejected as rejected:
            self._status_changed = True
            self._log.warning("message_refused", topic=topic, reason=rejected.reason, detail=rejected.detail)
        if self._settings.save_error is not None:
            self._log.error("setting_not_saved", error=self._settings.save_error)

    def _load_settings(self, kept: Kept) -> bool:
        """Apply stored settings, and return whether there were any."""
        found = self._settings.load(self._periods(), kept)
        for rejected in found.refused:
            self._log.warning("stored_setting_refused", reason=rejected.reason, detail=rejected.detail)
        return found.changed

    def _follow_settings(self) -> None:
        """Follow new settings once all that has elapsed, an absence included, is stored under those before them.

        A tick must not carry a setting that was issued after it: the calibrator refuses such a batch. Where presence is
        hidden, a batch must not be cut short for it either: long beats are waited for.
        """
        hidden = self._config.publish.hidden
        self._settings_changed = True
        if hidden and self._streams.publishing and self._since_beat_ms() > FRESH_MS:
            return
        self._beat(final=not hidden)
        self._settings_changed = self._streams.behind
        if not self._settings_changed:
            self._streams.follow_settings()
            self._settings.followed()

    def _since_beat_ms(self) -> int:
        """Milliseconds since the last beat, by the wall clock."""
        wall = self._clock.wall()
        return wall // 1_000_000 - self._schedule.last_beat_ms(wall)

    def _on_seen(self, seen: Seen) -> None:
        """Delete counted batches with the next beat's commit, or now if no beat will follow."""
        for stream, counted in seen.streams.items():
            self._check_twin(stream, counted)
        self._wait_for_seen = None
        self._seen |= seen.streams
        if self._stopping:
            self._commit([])

    def _check_twin(self, stream: str, counted: Counted) -> None:
        """Use no tick that was counted of this device and is above all that this folder has used.

        The folder is then an older image, or a copy of one in use: a tick must not be perturbed twice under one name.
        Until the first `seen` nothing has left, so ticks made since the start are none that it can have counted.
        """
        balance = self._outbox.balances.get(stream)
        period_ms = self._streams.periods.get(stream) if balance is None else balance.period_ms
        used = -1 if balance is None else balance.watermark
        if self._wait_for_seen is not None:
            used = self._used_before.get(stream, -1)
        if period_ms is None or counted.highest <= used:
            return
        now = tick_at(self._clock.wall(), period_ms)
        if counted.highest > now + AHEAD_S * 1000 // period_ms:
            # Nobody signs `seen`: one that is made up must not silence the device for ever.
            self._log.warning("seen_is_ahead", stream=stream, counted=counted.highest, now=now)
            return
        # The other one may have used ticks that are not counted yet: all that have begun are given up.
        try:
            dropped = self._outbox.give_up(stream, max(counted.highest, now), period_ms)
        except sqlite3.Error as error:
            self._log.error("outbox_unreadable", error=str(error))
            return
        self._publisher.allow()
        self._publisher.reconnected()
        self._streams.restart_all()
        self._status_changed = True
        self._log.error(
            "folder_is_older", stream=stream, used=used, counted=counted.highest, ticks_dropped=dropped
        )

    def _on_change(self, connected: bool) -> None:
        if connected and self._wait_for_seen is not None:
            self._wait_for_seen = time.monotonic() + SEEN_S
        if connected:
            self._publisher.reconnected()
            self._status_changed = True

    def _publish_status(self, now: float, *, online: bool = True, on_beat: bool = False) -> None:
        """Publish `status` if something other than a counter changed, or at the first beat after its interval.

        Where presence is hidden, only the schedule decides: neither a change nor a reconnect is seen in it.
        """
        if self._config.publish.hidden:
            if not on_beat or not self._status_is_due():
                return
        elif not self._status_changed and not (
            on_beat and now - self._status_at >= self._config.publish.status_ms / 1000
        ):
            return
        shown = None if self._config.publish.hidden else online
        current = status(self._settings, self._outbox, self._config.streams, online=shown)
        try:
            self._connection.publish(self._topics.status(self._config.device), encode(current), retain=True)
        except Offline:
            return
        self._status_changed, self._status_at = False, now

    def _status_is_due(self) -> bool:
        """Whether a moment of the status schedule has passed since the last call."""
        before, self._status_moment = (
            self._status_moment,
            self._status_schedule.last_beat_ms(self._clock.wall()),
        )
        return self._status_moment != before

    def _finish(self) -> None:
        """Sample the last ticks, send what waits, wait briefly for `seen`, publish the final status.

        Where presence is hidden, a last batch that is shorter than others would show the stop: its ticks are filled
        after the next start.
        """
        self._leave_by = time.monotonic() + STOP_S
        self._beat(final=not self._config.publish.hidden)
        self._send(time.monotonic(), new=True)
        until = time.monotonic() + (0 if self._successor else self._config.publish.linger_ms / 1000)
        while (left := until - time.monotonic()) > 0 and self._connection.connected:
            self._send(time.monotonic())
            if not any(balance.buffered for balance in self._outbox.balances.values()):
                break
            self._handle_posted(left)
            while not self._posted.empty():
                self._posted.get_nowait()()
        self._status_changed = True
        self._publish_status(time.monotonic(), online=False)

    def _disconnect(self) -> None:
        self._connection.stop(min(2.0, max(0.5, self._leave_by - time.monotonic())))

    def _report(self) -> Report:
        return report(
            self._config,
            self._settings,
            self._outbox,
            self._connection,
            self._publisher,
            self._streams.running,
            ticks_not_stored=self._not_stored,
            clock_set=self._streams.clock_set,
        )
