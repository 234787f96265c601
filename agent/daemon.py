"""The loop of the device. Everything happens on one thread, at the beat; other threads only post to it.

At each beat: every elapsed tick is sampled, discretised, perturbed and committed to the outbox; then, and only
then, bytes may leave. Pushed settings, acknowledgements and `seen` are handled between beats, in the order they came.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from agent.config import Config
from agent.outbox import DiskFullError, Made, Outbox
from agent.publish import Publisher
from agent.resample import Value
from agent.settings import Settings, Trust
from agent.source import OfferedSource, Source, open_source
from agent.status import status
from agent.stream import Stream
from agent.tick import Clock
from broker.connection import Connection, Offline, Will
from broker.messages import Counted, Seen, Status, StreamPolicy, decode, encode
from broker.problem import Problem, Rejected
from broker.topics import Topics, parse


class Agent:
    """One device. `run` blocks until `stop` is called, from a signal handler or another thread."""

    def __init__(self, config: Config, *, log: Any, clock: Clock | None = None) -> None:
        self._config, self._log, self._clock = config, log, clock or Clock()
        self._topics = Topics(config.cohort)
        endpoints = config.broker.endpoints()
        trust = Trust.of(config.trust)
        self._lock = _lock(config)
        self._outbox = Outbox(
            config.folder, max_bytes=config.outbox.max_bytes, max_age_s=config.outbox.max_age_s
        )
        self._settings = Settings(
            config.folder, trust, cohort=config.cohort, device=config.device, streams=config.streams
        )
        self._posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = False
        self._streams: dict[str, Stream] = {}
        self._seen: dict[str, Counted] = {}
        self._news = True
        self._said_at = 0.0
        self._connection = Connection(
            endpoints=endpoints,
            client_id=f"{config.cohort}-{config.device}",
            subscriptions=[
                self._topics.policy,
                *(self._topics.noise(stream) for stream in config.streams),
                *(self._topics.noise(stream, config.device) for stream in config.streams),
                self._topics.seen(config.device),
            ],
            on_message=lambda topic, payload, _: self._posted.put(partial(self._on_message, topic, payload)),
            on_change=lambda connected: self._posted.put(partial(self._on_change, connected)),
            will=Will(self._topics.status(config.device), encode(Status(online=False))),
            log=log,
        )
        self._publisher = Publisher(
            self._outbox,
            self._connection,
            self._topics,
            device=config.device,
            window=config.publish.window,
            resend_s=config.publish.resend_ms / 1000,
            post=self._posted.put,
        )

    def run(self) -> None:
        """Work until stopped, then flush, say goodbye and leave nothing running."""
        self._log.info(
            "agent started", device=self._config.device, cohort=self._config.cohort, pid=os.getpid()
        )
        try:
            if self._outbox.set_aside is not None:
                self._log.error("outbox corrupt", set_aside=str(self._outbox.set_aside))
            for rejected in self._settings.load(self._periods()):
                self._log.warning("kept setting refused", reason=rejected.reason, detail=rejected.detail)
            self._follow_settings()
            self._connection.start()
            self._loop()
            self._finish()
        finally:
            self._connection.stop()
            for stream in self._streams.values():
                stream.source.stop()
            self._outbox.close()
            os.close(self._lock)
        self._log.info("agent stopped", device=self._config.device)

    def stop(self) -> None:
        """End `run`; safe in a signal handler and from any thread."""
        self._posted.put(self._on_stop)

    def offer(self, value: Value, stream: str | None = None) -> None:
        """A value, now, for a stream whose source is `offer`; the stream may be left out when there is one only."""
        names = [name for name, section in self._config.streams.items() if section.source.kind == "offer"]
        if stream is None and len(names) == 1:
            stream = names[0]
        if stream not in names:
            raise Problem(
                f"stream {stream!r} takes no offered values: those that do are {', '.join(names) or 'none'}"
            )
        running = self._streams.get(stream)
        if running is not None and isinstance(running.source, OfferedSource):
            running.source.offer(value)

    def _on_stop(self) -> None:
        self._stopping = True

    def _loop(self) -> None:
        beat = self._config.publish.beat_ms / 1000
        due = time.monotonic() + beat
        while not self._stopping:
            self._handle_posted(due)
            now = time.monotonic()
            if now >= due:
                due = max(due + beat, now)
                self._beat()
            self._publisher.pump(now)
            self._say(now)

    def _handle_posted(self, until: float) -> None:
        """Handle what was posted, waiting for something until then at the longest."""
        try:
            self._posted.get(timeout=max(0.0, until - time.monotonic()))()
            while not self._stopping:
                self._posted.get_nowait()()
        except Empty:
            pass

    def _beat(self) -> None:
        made: list[Made] = []
        for name, stream in self._streams.items():
            elapsed, batches = stream.beat(self._watermark(name))
            if elapsed.clock != "steady":
                self._log.warning(f"clock set {elapsed.clock}", stream=name, next_tick=elapsed.last + 1)
            made += batches
        self._commit(made)

    def _commit(self, made: list[Made]) -> None:
        before = {name: (book.buffered, book.dropped) for name, book in self._outbox.books.items()}
        seen, self._seen = self._seen, {}
        try:
            self._outbox.commit(
                made,
                periods={name: stream.policy.period_ms for name, stream in self._streams.items()},
                seen=seen,
                now_ms=self._clock.wall() // 1_000_000,
            )
        except DiskFullError as error:
            self._seen = seen | self._seen
            ticks = sum(batch.last - batch.first + 1 for batch in made)
            self._log.error("outbox takes no more", error=str(error), ticks_not_stored=ticks)
            return
        except sqlite3.DatabaseError:
            self._outbox.recover()
            self._log.error("outbox corrupt", set_aside=str(self._outbox.set_aside))
            for name, stream in self._streams.items():
                self._start_stream(name, stream.source, stream.policy)
        if self._outbox.mark_error is not None:
            self._log.error("mark not written", error=self._outbox.mark_error)
        for name, (buffered, dropped) in before.items():
            book = self._outbox.books[name]
            if book.dropped > dropped:
                self._log.warning("oldest batches dropped", stream=name, ticks=book.dropped - dropped)
            self._news |= book.dropped != dropped
            if book.dropped != dropped or book.buffered < buffered:
                self._publisher.forgotten()

    def _watermark(self, stream: str) -> int:
        book = self._outbox.books.get(stream)
        return -1 if book is None else book.watermark

    def _periods(self) -> dict[str, int]:
        return {name: book.period_ms for name, book in self._outbox.books.items()}

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
                self._follow_settings()
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

    def _follow_settings(self) -> None:
        """Bring the streams in line with the policy and the noise in force."""
        policies = self._settings.policy.streams if self._settings.policy else {}
        for name, section in self._config.streams.items():
            running = self._streams.get(name)
            if running is not None and running.policy != policies.get(name):
                running.source.stop()
                del self._streams[name]
            if name in policies and name not in self._streams:
                source = open_source(section.source, self._clock, policies[name].period_ms)
                self._start_stream(name, source, policies[name])
            if name in self._streams:
                self._streams[name].use(self._settings.noise.get(name))

    def _start_stream(self, name: str, source: Source, policy: StreamPolicy) -> None:
        """Hand out no tick of the stream at or below its watermark."""
        self._streams[name] = Stream(name, source, policy, clock=self._clock, watermark=self._watermark(name))
        self._streams[name].use(self._settings.noise.get(name))

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
        self._beat()
        until = time.monotonic() + self._config.publish.linger_ms / 1000
        while time.monotonic() < until and self._connection.connected:
            self._publisher.pump(time.monotonic())
            if all(book.buffered == 0 for book in self._outbox.books.values()):
                break
            try:
                self._posted.get(timeout=max(0.0, until - time.monotonic()))()
            except Empty:
                break
        self._news = True
        self._say(time.monotonic(), online=False)


def _lock(config: Config) -> int:
    """Own the folder: two agents in one would use a tick twice."""
    try:
        config.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(config.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Problem(f"folder: {config.folder}: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise Problem(f"folder: another agent runs in {config.folder}: give each its own") from None
    return handle
