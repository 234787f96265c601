"""The calibrator's loop: the network thread fills a queue, this thread does everything else.

Around and around: count what has arrived, in one transaction; close the windows that are due; make a setting if
it is worth it, and some of the devices' own; publish what is stored. Topics other than releases are states: only the
newest value of a topic waits to be published. A release waits in the database until the broker has acknowledged it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from functools import partial

from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.messages import LedgerState, encode
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import SHARDS, Topics
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.broker.service.systemd import Systemd
from hushmq.calibrator.calibrator_config import Config
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.health_report import Report
from hushmq.calibrator.health_server import Server
from hushmq.calibrator.ingest.receive import Arrived
from hushmq.calibrator.settings.calibrate import Current
from hushmq.calibrator.store.tables import open_store

GROUP = 2_000
"""Messages taken in one transaction."""
COLLECT_S = 0.03
"""How long messages are collected for a group."""
INBOX = 20_000
PORTION_S = 0.05
"""How long own settings are made before what has arrived is counted again."""
SETTLED_S = 1.0
"""After so long with a broker, what it retains of us has arrived."""
REPORT_S = 1.0
PUT_RIGHT_S = 1.0
"""A setting that was overwritten is published again at most this often."""


class Daemon:
    """Owns the connection and the loop. `stop` and `ask_reload` may be called from a signal handler."""

    def __init__(
        self,
        config: Config,
        *,
        log: FilteringBoundLogger,
        clock: Callable[[], float] = time.time,
        reload: Callable[[], Config] | None = None,
    ) -> None:
        self._config = config
        self._load = reload
        self._log = log
        self._engine = open_store(config.database)
        self._cohort = Cohort(
            self._engine,
            cohort=config.cohort,
            key=config.keys.signing_key,
            ops_keys=config.keys.trusted,
            grace_s=config.grace_s,
            clock=clock,
            log=log,
            devices=config.devices,
            mark_path=config.mark_path,
        )
        # Bounded: what does not fit is dropped, and sent again by the device, which keeps it until `seen`.
        self._inbox: deque[Arrived] = deque()
        self._news = threading.Event()
        self._dropped = 0
        self._acknowledged: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self._handed_over: set[tuple[int, str]] = set()
        self._unsent: list[tuple[int, str, bytes]] = []
        self._newest: dict[str, bytes] = {}
        self._waiting: set[str] = set()
        self._noise_topics: set[str] = set()
        self._put_right_next: dict[str, float] = {}
        self._ours: set[str] = set()
        """Topics on which we ourselves listen to what we said before."""
        self._to_tell: set[str] = set()
        self._tell_next = self._report_next = 0.0
        self._greet = True
        self._settled = False
        self._settles_at: float | None = None
        self._received = self._taken = 0
        self._to_take: int | None = None
        self._settings: dict[str, int] = {}
        self._own: dict[str, dict[str, Current]] = {}
        self._ledgers: dict[str, LedgerState] = {}
        self._stopping = self._reload_asked = False
        self._successor: Config | None = None
        self._systemd = Systemd()
        self._server = (
            None if config.metrics.port is None else Server(config.metrics.host, config.metrics.port)
        )
        self._connection = Connection(
            endpoints=config.broker.endpoints(),
            client_id=f"calibrator-{config.cohort}-{config.name}",
            subscriptions=_subscriptions(self._cohort.topics, config.shards),
            on_message=self._receive,
            on_change=self._changed,
            window=100,
            ask_twice=True,
            log=log,
        )

    @property
    def metrics_port(self) -> int | None:
        return self._server.port if self._server else None

    def run(self) -> Config | None:
        """Work until asked to stop, publish what is stored and leave; after a reload return the new settings."""
        self._connection.start()
        try:
            self._refresh()
            self._unsent = self._cohort.unsent()
            self._systemd.notify("READY=1")
            while not self._stopping:
                self._turn(timeout=0.0 if self._cohort.making else 0.1)
                self._reload_if_asked()
            self._systemd.notify("RELOADING=1" if self._successor else "STOPPING=1")
            self._tell_next = 0.0
            self._turn(timeout=0.0)
        finally:
            self._connection.stop()
            if self._server is not None:
                self._server.stop()
            self._engine.dispose()
        return self._successor

    def stop(self) -> None:
        """End `run`."""
        self._stopping = True

    def ask_reload(self) -> None:
        """Read the settings again and end `run` with them; if they are wrong, say so and go on as before."""
        self._reload_asked = True

    def _reload_if_asked(self) -> None:
        if not self._reload_asked or self._load is None:
            return
        self._reload_asked = False
        try:
            self._successor = self._load()
        except Problem as problem:
            self._log.warning("settings_refused", problem=str(problem))
        else:
            self._stopping = True

    def _turn(self, *, timeout: float) -> None:
        arrived = self._take(timeout)
        followed = self._cohort.policy
        stopped = len(self._cohort.stopped)
        if arrived:
            self._to_tell |= self._cohort.take(arrived)
            self._put_right(arrived)
        self._settle()
        added = self._cohort.added
        closed = self._cohort.close_due() if self._settled else []
        if closed or self._cohort.added != added:
            self._unsent = self._cohort.unsent()
        if closed or self._cohort.policy is not followed or len(self._cohort.stopped) != stopped:
            self._refresh()
        elif self._cohort.making:
            self._refresh_own()
        self._note_acknowledged()
        topics = self._cohort.topics
        if self._connection.connected:
            if self._greet:
                self._greet = False
                self._handed_over.clear()
                self._waiting |= self._newest.keys()
                self._waiting -= {topics.ledger(stream) for stream in self._cohort.stopped}
                self._to_tell |= self._cohort.devices()
            self._tell_seen()
            self._publish()
        self._report()
        self._systemd.feed(healthy=self._connection.alive)

    def _settle(self) -> None:
        """Find out whether what the broker retains of us, our marks and settings among it, has been taken in.

        Before that nothing is charged, and nothing of ours on the broker is overwritten: it may tell that the
        database is an old one.
        """
        if self._settled or not self._connection.connected:
            return
        if self._settles_at is None:
            self._settles_at = time.monotonic() + SETTLED_S
        if time.monotonic() >= self._settles_at:
            if self._to_take is None:
                self._to_take = self._received
            self._settled = self._taken >= self._to_take

    def _take(self, timeout: float) -> list[Arrived]:
        """What has arrived; a little is waited for more, since every group costs a write to the disk."""
        if timeout and self._news.wait(timeout) and len(self._inbox) < GROUP:
            time.sleep(COLLECT_S)
        self._news.clear()
        arrived = [self._inbox.popleft() for _ in range(min(GROUP, len(self._inbox)))]
        if self._inbox:
            self._news.set()
        self._taken += len(arrived)
        return arrived

    def _refresh(self) -> None:
        """Bring settings and accounts up to date with the evidence."""
        topics = self._cohort.topics
        for stream, setting in self._cohort.settings().items():
            self._settings[stream] = setting.message.version
            self._offer(topics.noise(stream), setting.payload)
        self._refresh_own()

    def _refresh_own(self) -> None:
        """Make some more of the devices' own settings; when all are made, say how the accounts stand with them."""
        topics = self._cohort.topics
        self._own = self._cohort.own_settings(PORTION_S)
        for stream, own in self._own.items():
            for device, setting in own.items():
                self._offer(topics.noise(stream, device), setting.payload)
        if self._cohort.making:
            return
        for account in self._cohort.accounts():
            self._ledgers[account.stream] = account
            self._ours.add(topics.ledger(account.stream))
            if account.seal is not None:
                self._state(topics.ledger(account.stream), encode(account))
            else:
                self._waiting.discard(topics.ledger(account.stream))

    def _offer(self, topic: str, payload: bytes) -> None:
        self._noise_topics.add(topic)
        self._ours.add(topic)
        self._state(topic, payload)

    def _put_right(self, arrived: list[Arrived]) -> None:
        """Publish a setting again, once in a while, where somebody has put something else in its place."""
        now = time.monotonic()
        for item in arrived:
            ours = self._newest.get(item.topic) if item.topic in self._noise_topics else None
            if ours not in {None, item.payload} and now >= self._put_right_next.get(item.topic, 0.0):
                self._put_right_next[item.topic] = now + PUT_RIGHT_S
                self._waiting.add(item.topic)

    def _tell_seen(self) -> None:
        if not self._to_tell or time.monotonic() < self._tell_next:
            return
        for device, seen in self._cohort.seen_of(self._to_tell).items():
            self._state(self._cohort.topics.seen(device), encode(seen))
        self._to_tell.clear()
        self._tell_next = time.monotonic() + self._config.seen_every_s

    def _state(self, topic: str, payload: bytes) -> None:
        if self._newest.get(topic) != payload:
            self._newest[topic] = payload
            self._waiting.add(topic)

    def _publish(self) -> None:
        try:
            waiting = self._waiting if self._settled else self._waiting - self._ours
            # Longer topics first: a device hears of its own new setting before it hears of the cohort's.
            for topic in sorted(waiting, key=lambda one: (-one.count("/"), one)):
                self._connection.publish(topic, self._newest[topic], retain=True)
                self._waiting.discard(topic)
            for entry, topic, payload in self._unsent:
                if (entry, topic) not in self._handed_over:
                    self._connection.publish(
                        topic,
                        payload,
                        retain=True,
                        on_acknowledged=partial(self._acknowledged.put, (entry, topic)),
                    )
                    self._handed_over.add((entry, topic))
        except Offline:
            pass  # what is left waits for the next turn

    def _note_acknowledged(self) -> None:
        sent = []
        while not self._acknowledged.empty():
            sent.append(self._acknowledged.get_nowait())
        if sent:
            self._cohort.mark_sent(sent)
            self._handed_over.difference_update(sent)
            self._unsent = self._cohort.unsent()

    def _report(self) -> None:
        if self._server is None or time.monotonic() < self._report_next:
            return
        self._report_next = time.monotonic() + REPORT_S
        cohort, statuses = self._cohort, self._cohort.statuses
        refusing = Counter(
            str(refusal.reason)
            for status in statuses.values()
            for refusal in [status.refused, *(one.refused for one in status.streams.values())]
            if refusal is not None
        )
        online = {device: status for device, status in statuses.items() if status.online}
        stopped = {name: state.stopped for name, state in self._ledgers.items() if state.stopped}
        self._server.show(
            Report(
                connected=self._connection.connected,
                policy=cohort.policy.version if cohort.policy else None,
                inbox=len(self._inbox),
                dropped=self._dropped,
                ticks_counted=cohort.counted,
                released=cohort.released,
                refused=cohort.refused,
                unsent=len(self._unsent),
                devices=len(statuses),
                online=len(online),
                quarantined={device: str(reason) for device, reason in cohort.aside().items()},
                rejected={str(reason): count for reason, count in cohort.rejected.items()},
                refusing=refusing,
                settings=dict(self._settings),
                behind={
                    stream: sum(
                        stream in one.streams and one.streams[stream].noise != self._due(stream, device)
                        for device, one in online.items()
                    )
                    for stream in self._settings
                },
                own={stream: len(devices) for stream, devices in self._own.items()},
                ledgers=dict(self._ledgers),
                stopped=stopped | cohort.stopped,
            )
        )

    def _due(self, stream: str, device: str) -> int:
        """The version the device should follow: the newer of the cohort's and its own."""
        own = self._own.get(stream, {}).get(device)
        return max(self._settings[stream], own.message.version if own else 0)

    # On the network thread:

    def _receive(self, topic: str, payload: bytes, _retained: bool) -> None:
        if len(self._inbox) < INBOX:
            self._inbox.append(Arrived(topic, payload))
            self._received += 1
            if not self._news.is_set():
                self._news.set()
        else:
            if self._dropped % INBOX == 0:
                self._log.warning("inbox_full", dropped=self._dropped + 1)
            self._dropped += 1

    def _changed(self, connected: bool) -> None:
        self._log.info("connected" if connected else "disconnected")
        self._greet = self._greet or connected


def _subscriptions(topics: Topics, shards: tuple[str, ...]) -> list[str]:
    batches = topics.all("z")
    return [
        topics.policy,
        *([batches] if len(shards) == SHARDS else (f"{batches.removesuffix('#')}{one}/#" for one in shards)),
        *(topics.all(kind) for kind in ("status", "noise", "ledger", "release")),
    ]
