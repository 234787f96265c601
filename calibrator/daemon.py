"""The calibrator's loop: the network thread fills a queue, this thread does everything else.

Around and around: count what has arrived, in one transaction; close the windows that are due; make a setting if
it is worth it; publish what is stored. Topics other than releases are states: only the newest value of a topic
waits to be published. A release waits in the database until the broker has acknowledged it.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from functools import partial

from structlog.typing import FilteringBoundLogger

from broker.connection import Connection, Offline
from broker.messages import encode
from broker.signature import PrivateKey
from calibrator.cohort import Arrived, Cohort
from calibrator.config import Config
from calibrator.store import open_store

GROUP = 500
"""Messages taken in one transaction."""


class Daemon:
    """Owns the connection and the loop."""

    def __init__(
        self,
        config: Config,
        *,
        key: PrivateKey,
        log: FilteringBoundLogger,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._log = log
        self._engine = open_store(config.database)
        self._cohort = Cohort(
            self._engine,
            cohort=config.cohort,
            key=key,
            ops_keys=config.ops_keys,
            grace_s=config.grace_s,
            clock=clock,
            log=log,
        )
        # Bounded: what does not fit is dropped, and sent again by the device, which keeps it until `seen`.
        self._inbox: queue.Queue[Arrived] = queue.Queue(maxsize=20_000)
        self._acknowledged: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._handed_over: set[int] = set()
        self._newest: dict[str, bytes] = {}
        self._waiting: set[str] = set()
        self._to_tell: set[str] = set()
        self._tell_next = 0.0
        self._greet = True
        topics = self._cohort.topics
        self._connection = Connection(
            endpoints=config.endpoints,
            client_id=f"calibrator-{config.cohort}",
            subscriptions=[topics.policy, topics.all("z")],
            on_message=self._receive,
            on_change=self._changed,
            window=200,
            log=log,
        )

    def run(self, stopping: Callable[[], bool]) -> None:
        """Work until asked to stop, then publish what is stored and leave."""
        self._connection.start()
        try:
            self._refresh()
            while not stopping():
                self._turn(timeout=0.1)
            self._tell_next = 0.0
            self._turn(timeout=0.0)
        finally:
            self._connection.stop()
            self._engine.dispose()

    def _turn(self, *, timeout: float) -> None:
        arrived = self._take(timeout)
        followed = self._cohort.policy
        if arrived:
            self._to_tell |= self._cohort.take(arrived)
        closed = self._cohort.close_due()
        if closed or self._cohort.policy is not followed:
            self._refresh()
        self._note_acknowledged()
        if self._connection.connected:
            if self._greet:
                self._greet = False
                self._handed_over.clear()
                self._waiting |= self._newest.keys()
                self._to_tell |= self._cohort.devices()
            self._tell_seen()
            self._publish()

    def _take(self, timeout: float) -> list[Arrived]:
        arrived: list[Arrived] = []
        try:
            arrived.append(self._inbox.get(timeout=timeout) if timeout else self._inbox.get_nowait())
            while len(arrived) < GROUP:
                arrived.append(self._inbox.get_nowait())
        except queue.Empty:
            pass
        return arrived

    def _refresh(self) -> None:
        """Bring settings and accounts up to date with the evidence."""
        topics = self._cohort.topics
        for stream, setting in self._cohort.settings().items():
            self._state(topics.noise(stream), setting.payload)
        for account in self._cohort.accounts():
            self._state(topics.ledger(account.stream), encode(account))

    def _tell_seen(self) -> None:
        if not self._to_tell or time.monotonic() < self._tell_next:
            return
        for device in self._to_tell:
            self._state(self._cohort.topics.seen(device), encode(self._cohort.seen(device)))
        self._to_tell.clear()
        self._tell_next = time.monotonic() + self._config.seen_every_s

    def _state(self, topic: str, payload: bytes) -> None:
        if self._newest.get(topic) != payload:
            self._newest[topic] = payload
            self._waiting.add(topic)

    def _publish(self) -> None:
        try:
            for topic in sorted(self._waiting):
                self._connection.publish(topic, self._newest[topic], retain=True)
                self._waiting.discard(topic)
            for entry, topic, payload in self._cohort.unsent():
                if entry not in self._handed_over:
                    self._connection.publish(
                        topic,
                        payload,
                        retain=True,
                        on_acknowledged=partial(self._acknowledged.put, entry),
                    )
                    self._handed_over.add(entry)
        except Offline:
            pass  # what is left waits for the next turn

    def _note_acknowledged(self) -> None:
        entries = []
        while not self._acknowledged.empty():
            entries.append(self._acknowledged.get_nowait())
        if entries:
            self._cohort.mark_sent(entries)
            self._handed_over.difference_update(entries)

    # On the network thread:

    def _receive(self, topic: str, payload: bytes, _retained: bool) -> None:
        try:
            self._inbox.put_nowait(Arrived(topic, payload))
        except queue.Full:
            self._log.warning("inbox_full")

    def _changed(self, connected: bool) -> None:
        self._log.info("connected" if connected else "disconnected")
        self._greet = self._greet or connected
