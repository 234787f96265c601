"""The loop of the device. Everything happens on one thread, at the beat; other threads only post to it.

At each beat every elapsed tick is sampled, discretised, perturbed and committed to the outbox; then, and only
then, bytes may leave. Pushed settings, acknowledgements and `seen` are handled between beats, in the order they came.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from hushmq.agent.accept_settings import Settings, Trust
from hushmq.agent.agent_config import Config
from hushmq.agent.device_report import Report
from hushmq.agent.device_status import report, status
from hushmq.agent.device_windows import MadeRelease
from hushmq.agent.publish import Publisher
from hushmq.agent.sources.resample import HELD, Value
from hushmq.agent.sources.tick import Clock
from hushmq.agent.status_socket import Server
from hushmq.agent.storage.folder_lock import lock
from hushmq.agent.storage.outbox import DiskFullError, Made, Outbox
from hushmq.agent.streams import Streams
from hushmq.broker.contract.messages import Counted, Seen, Status, decode, encode
from hushmq.broker.contract.problem import Problem, Rejected
from hushmq.broker.contract.topics import Topics, parse
from hushmq.broker.mqtt.connection import Connection, Offline, Will
from hushmq.broker.service.log import logger
from hushmq.broker.service.systemd import Systemd

STOP_S = 3.5
"""A stop is over after so many seconds, whatever the brokers do: systemd's users wait for it."""
MISSED_BEATS = 3
"""The outbox moves as long as one of the last so many beats was committed."""


class Agent:
    """One device. `run` blocks until `stop` or `reload`, which a signal handler or another thread may call."""

    def __init__(
        self,
        config: Config,
        *,
        log: Any | None = None,
        clock: Clock | None = None,
        reload: Callable[[], Config] | None = None,
    ) -> None:
        self._config, self._clock, self._load = config, clock or Clock(), reload
        self._log = log if log is not None else logger(config.log.level, config.log.form)
        self._topics = Topics(config.cohort)
        self._systemd = Systemd()
        self._posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = False
        self._successor: Config | None = None
        self._seen: dict[str, Counted] = {}
        self._news = True
        self._said_at = 0.0
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
            self._server = Server(
                config.folder,
                host=config.metrics.host,
                port=config.metrics.port,
                ask=self._ask,
                log=self._log,
            )
            opened.callback(self._server.stop)
            self._opened = opened.pop_all()
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
            ask_twice=True,
            will=Will(self._topics.status(config.device), encode(Status(online=False))),
            log=self._log,
        )

    def run(self) -> Config | None:
        """Work until stopped, then flush, say goodbye and leave nothing running; after a reload the new settings."""
        self._log.info(
            "agent started", device=self._config.device, cohort=self._config.cohort, pid=os.getpid()
        )
        try:
            if self._outbox.set_aside is not None:
                self._log.error("outbox corrupt", set_aside=str(self._outbox.set_aside))
            for rejected in self._settings.load(self._periods()):
                self._log.warning("kept setting refused", reason=rejected.reason, detail=rejected.detail)
            self._streams.follow_settings()
            self._connection.start()
            self._systemd.notify("READY=1")
            self._loop()
            self._systemd.notify("RELOADING=1" if self._successor else "STOPPING=1")
            self._finish()
        finally:
            self._leave_by = self._leave_by or time.monotonic() + STOP_S
            self._streams.stop()
            self._opened.close()
        self._log.info("agent stopped", device=self._config.device)
        return self._successor

    def stop(self) -> None:
        """End `run`."""
        self._posted.put(self._on_stop)

    def reload(self) -> None:
        """Read the settings again and end `run` with them; if they are wrong, say so and go on as before."""
        self._posted.put(self._on_reload)

    def offer(self, value: Value, stream: str | None = None) -> None:
        """A value, now, for a stream whose source is `offer`; it need not be named when there is one only.

        Any thread may call it. Before a policy names the stream, values are let go.
        """
        self._streams.offer(value, stream)

    @property
    def metrics_port(self) -> int | None:
        """The port `/metrics` is served on."""
        return self._server.port

    def _loop(self) -> None:
        longest = self._systemd.watchdog_s / 4 or self._beat_s
        due = time.monotonic() + self._beat_s
        while not self._stopping:
            self._handle_posted(min(due - time.monotonic(), longest))
            now = time.monotonic()
            if now >= due:
                due = max(due + self._beat_s, now)
                self._beat()
            self._send(now)
            self._say(now)
            moving = now - self._committed_at <= MISSED_BEATS * self._beat_s + longest
            self._systemd.feed(healthy=moving and self._connection.alive)

    @property
    def _beat_s(self) -> float:
        """The beat, or a shorter one where more ticks than a source holds values for would fall into it."""
        periods = self._streams.periods.values()
        return min([self._config.publish.beat_ms, *(HELD // 2 * period for period in periods)]) / 1000

    def _handle_posted(self, wait_s: float) -> None:
        """Handle what was posted, waiting so long for something."""
        try:
            self._posted.get(timeout=max(0.0, wait_s))()
            while not self._stopping:
                self._posted.get_nowait()()
        except Empty:
            pass

    def _beat(self) -> None:
        self._commit(*self._streams.beat())

    def _commit(self, made: list[Made], releases: list[MadeRelease] | None = None) -> None:
        before = {name: (book.buffered, book.dropped) for name, book in self._outbox.books.items()}
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
        except DiskFullError as error:
            self._seen = seen | self._seen
            self._publisher.delivered |= set(delivered)
            ticks = sum(batch.last - batch.first + 1 for batch in made)
            self._not_stored += ticks
            self._log.error("outbox takes no more", error=str(error), ticks_not_stored=ticks)
            return
        except sqlite3.DatabaseError:
            self._recover()
        self._committed_at = time.monotonic()
        if self._outbox.mark_error is not None:
            self._log.error("mark not written", error=self._outbox.mark_error)
        for name, (buffered, dropped) in before.items():
            book = self._outbox.books[name]
            if book.dropped > dropped:
                self._log.warning("ticks dropped", stream=name, ticks=book.dropped - dropped)
            self._news |= book.dropped != dropped
            if book.dropped != dropped or book.buffered < buffered:
                self._publisher.forgotten()

    def _send(self, now: float) -> None:
        try:
            self._publisher.pump(now)
        except sqlite3.OperationalError as error:
            self._log.error("outbox cannot be read", error=str(error))
        except sqlite3.DatabaseError:
            self._recover()

    def _recover(self) -> None:
        """Begin a new outbox; the ticks of this beat, which were not stored, are never used again."""
        self._outbox.recover()
        self._publisher.reconnected()
        self._log.error("outbox corrupt", set_aside=str(self._outbox.set_aside))
        self._streams.start_anew()

    def _periods(self) -> dict[str, int]:
        return {name: book.period_ms for name, book in self._outbox.books.items()}

    def _on_stop(self) -> None:
        self._stopping = True

    def _on_reload(self) -> None:
        try:
            self._successor = self._load() if self._load else self._config
        except Problem as problem:
            self._log.error("configuration refused", problem=str(problem))
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
                self._news = True
                self._log.info("setting applied", topic=topic)
                self._streams.follow_settings()
        except Rejected as rejected:
            self._news = True
            self._log.warning("message refused", topic=topic, reason=rejected.reason, detail=rejected.detail)
        if self._settings.save_error is not None:
            self._log.error("setting not saved", error=self._settings.save_error)

    def _on_seen(self, seen: Seen) -> None:
        """Forget what is counted with the next beat's commit, or at once when no beat will follow."""
        self._seen |= seen.streams
        if self._stopping:
            self._commit([])

    def _on_change(self, connected: bool) -> None:
        if connected:
            self._publisher.reconnected()
            self._news = True

    def _say(self, now: float, *, online: bool = True) -> None:
        """Publish `status` when something but the counters has changed, or it is time."""
        if not self._news and now - self._said_at < self._config.publish.status_ms / 1000:
            return
        current = status(self._settings, self._outbox, self._config.streams, online=online)
        try:
            self._connection.publish(self._topics.status(self._config.device), encode(current), retain=True)
        except Offline:
            return
        self._news, self._said_at = False, now

    def _finish(self) -> None:
        """Sample what has elapsed, send what waits, give the calibrator a moment to see it, say goodbye."""
        self._leave_by = time.monotonic() + STOP_S
        self._beat()
        until = time.monotonic() + (0 if self._successor else self._config.publish.linger_ms / 1000)
        while (left := until - time.monotonic()) > 0 and self._connection.connected:
            self._send(time.monotonic())
            if not any(book.buffered for book in self._outbox.books.values()):
                break
            self._handle_posted(left)
            while not self._posted.empty():
                self._posted.get_nowait()()
        self._news = True
        self._say(time.monotonic(), online=False)

    def _disconnect(self) -> None:
        self._connection.stop(min(2.0, max(0.5, self._leave_by - time.monotonic())))

    def _ask(self) -> Report | None:
        """The report, from another thread."""
        answer: SimpleQueue[Report] = SimpleQueue()
        self._posted.put(lambda: answer.put(self._report()))
        try:
            return answer.get(timeout=1)
        except Empty:
            return None

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
