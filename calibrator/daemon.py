"""The loop of a calibrator with one cohort: the network thread fills the inbox, this thread does everything else.

What a turn of the loop does is in calibrator/serve_cohort.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from structlog.typing import FilteringBoundLogger

from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.service.systemd import Systemd
from hushmq.calibrator.calibrator_config import Config
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.health_server import HealthServer
from hushmq.calibrator.ingest.inbox import Arrived, Inbox
from hushmq.calibrator.ingest.topics_read import topics_read
from hushmq.calibrator.publish.discovery import Discovery
from hushmq.calibrator.serve_cohort import ServedCohort
from hushmq.calibrator.store.open_database import open_store
from hushmq.calibrator.store.storage_away import away_in_words
from hushmq.calibrator.work_loop import WorkLoop

IDLE_S = 0.1
"""How long a turn waits for messages when there is nothing else to do."""
READ_TOGETHER_S = 0.1
"""How long messages may wait in the socket to be read together, where few arrive."""
REPORT_S = 1.0


class Daemon(WorkLoop[Config]):
    """Owns the connection and the loop."""

    def __init__(
        self,
        config: Config,
        *,
        log: FilteringBoundLogger,
        clock: Callable[[], float] = time.time,
        reload: Callable[[], Config] | None = None,
        inbox: Inbox | None = None,
        reopening: bool = False,
        on_working: Callable[[], None] = lambda: None,
    ) -> None:
        """Open the database; StorageAway where that is not possible now. `on_working` is called after each turn."""
        super().__init__(reload=reload, log=log)
        self._config = config
        self._on_working = on_working
        self._engine = open_store(config.database, log=log, reopening=reopening)
        with ExitStack() as opened, away_in_words(self._engine):
            opened.callback(self._engine.dispose)
            self._cohort = Cohort(
                self._engine,
                cohort=config.cohort,
                key=config.keys.signing_key,
                ops_keys=config.keys.trusted,
                grace_s=config.grace_s,
                clock=clock,
                log=log,
                devices=config.devices,
                roster=config.roster,
                mark_path=config.mark_path,
            )
            opened.pop_all()
        self._inbox = inbox or Inbox(log)
        self._inbox.collect_s = config.collect_s
        self._served = ServedCohort(
            self._cohort, self._inbox, grace_s=config.grace_s, seen_every_s=config.seen_every_s
        )
        self._report_next = 0.0
        self._systemd = Systemd()
        self._server = (
            None if config.metrics.port is None else HealthServer(config.metrics.host, config.metrics.port)
        )
        self._connection = Connection(
            endpoints=config.broker.endpoints(),
            client_id=f"calibrator-{config.cohort}-{config.name}",
            subscriptions=topics_read(self._cohort.topics, config.shards),
            on_message=self._receive,
            on_change=self._changed,
            window=100,
            subscribe_twice=True,
            collect_s=min(READ_TOGETHER_S, config.collect_s),
            log=log,
        )
        announced = config.home_assistant
        self._discovery = None if announced is None else Discovery(config, announced, log)

    @property
    def metrics_port(self) -> int | None:
        return self._server.port if self._server else None

    @property
    def inbox(self) -> Inbox:
        """What has arrived and is not counted."""
        return self._inbox

    def run(self) -> Config | None:
        """Work until asked to stop, publish what is stored and leave; after a reload return the new settings.

        Raises StorageAway when the database has gone away; what was not counted is in the inbox.
        """
        self._connection.start()
        if self._discovery is not None:
            self._discovery.start()
        try:
            with away_in_words(self._engine):
                self._work()
        finally:
            self._connection.stop()
            if self._discovery is not None:
                self._discovery.stop()
            if self._server is not None:
                self._server.stop()
            self._engine.dispose()
        return self._successor

    def _work(self) -> None:
        self._served.begin()
        self._systemd.notify("READY=1")
        while not self._stopping:
            self._turn(timeout=0.0 if self._served.busy else IDLE_S)
            self._on_working()
            self._reload_if_asked()
        self._systemd.notify("RELOADING=1" if self._successor else "STOPPING=1")
        self._turn(timeout=0.0, last=True)

    def _turn(self, *, timeout: float, last: bool = False) -> None:
        """One turn of the cohort; then the report and the watchdog."""
        self._served.turn(self._connection, timeout=timeout, last=last)
        if self._discovery is not None and self._served.settled:
            self._discovery.update(self._cohort.policy, self._cohort.statuses)
        self._report()
        self._systemd.feed(healthy=self._connection.alive)

    def _report(self) -> None:
        if self._server is None or time.monotonic() < self._report_next:
            return
        self._report_next = time.monotonic() + REPORT_S
        self._server.show(self._served.report(connected=self._connection.connected))

    # On the network thread:

    def _receive(self, topic: str, payload: bytes, _retained: bool) -> None:
        self._inbox.put(Arrived(topic, payload))

    def _changed(self, connected: bool) -> None:
        self._log.info("connected" if connected else "disconnected")
        if connected:
            self._served.reconnected()
