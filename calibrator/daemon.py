"""The calibrator's loop: the network thread fills the inbox, this thread does everything else.

At every turn: receive and count what has arrived, in one transaction; close due windows; calibrate noise settings where
the evidence or the policy has changed; publish what is stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from sqlalchemy.exc import SQLAlchemyError
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.messages import LedgerState, encode
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.tick_runs import TickRuns
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.broker.service.systemd import Systemd
from hushmq.calibrator.calibrator_config import Config
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.health_server import HealthServer
from hushmq.calibrator.ingest.inbox import Arrived, Inbox
from hushmq.calibrator.ingest.receive import Received
from hushmq.calibrator.ingest.seen_ticks import newest_seen
from hushmq.calibrator.ingest.settling import Settling
from hushmq.calibrator.ingest.topics_read import topics_read
from hushmq.calibrator.make_report import make_report
from hushmq.calibrator.publish.discovery import Discovery
from hushmq.calibrator.publish.release_queue import ReleaseQueue
from hushmq.calibrator.publish.retained_topics import RetainedTopics
from hushmq.calibrator.settings.stored_settings import StoredSetting
from hushmq.calibrator.store.open_database import open_store
from hushmq.calibrator.store.storage_away import away_in_words
from hushmq.calibrator.windows.close_due_windows import ClosedWindows

IDLE_S = 0.1
"""How long a turn waits for messages when there is nothing else to do."""
PORTION_S = 0.05
"""How long device-specific settings are calibrated before what has arrived is counted again."""
READ_TOGETHER_S = 0.1
"""How long messages may wait in the socket to be read together, where few arrive."""
REPORT_S = 1.0


class Daemon:
    """Owns the connection and the loop. `stop` and `ask_reload` may be called from a signal handler."""

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
        self._config = config
        self._load = reload
        self._log = log
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
        self._settling = Settling(self._inbox)
        self._topics = RetainedTopics()
        self._releases = ReleaseQueue()
        self._unseen: dict[str, Mapping[str, TickRuns] | None] = {}
        """Devices whose `seen` is to be published, with what is durably accounted for; None: as the database has it."""
        self._seen_next = self._report_next = 0.0
        self._reconnected = True
        self._calibrating = False
        """Whether device-specific settings remain to be calibrated."""
        self._settings: dict[str, int] = {}
        self._device_settings: Mapping[str, Mapping[str, StoredSetting]] = {}
        self._ledgers: dict[str, LedgerState] = {}
        self._stopping = self._reload_asked = False
        self._successor: Config | None = None
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
        self._calibrate_cohort()
        self._calibrate_devices()
        self._releases.replace(self._cohort.unsent())
        for topic, payload in self._cohort.newest_releases().items():
            self._topics.acknowledged(topic, payload)
        self._systemd.notify("READY=1")
        while not self._stopping:
            self._turn(timeout=0.0 if self._calibrating else IDLE_S)
            self._on_working()
            self._reload_if_asked()
        self._systemd.notify("RELOADING=1" if self._successor else "STOPPING=1")
        self._seen_next = 0.0
        self._turn(timeout=0.0)

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
        """Receive and count, close due windows, calibrate, publish."""
        arrived = self._inbox.take(timeout)
        try:
            received = self._cohort.receive(arrived)
        except SQLAlchemyError:
            self._inbox.put_back(arrived)
            raise
        self._update_policy()
        self._topics.repair_overwritten(arrived, time.monotonic())
        settled = self._settling.settled(connected=self._connection.connected)
        caught_up = self._settling.caught_up(
            connected=self._connection.connected, grace_s=self._config.grace_s
        )
        resumed = self._cohort.resume()
        closed = self._close_due_windows() if caught_up else ClosedWindows()
        self._calibrate(received, closed, resumed=resumed)
        self._record_acknowledged()
        self._unseen |= received.accounted
        if self._connection.connected:
            self._publish(overwrite=settled)
        if self._discovery is not None and settled:
            self._discovery.update(self._cohort.policy, self._cohort.statuses)
        self._report()
        self._systemd.feed(healthy=self._connection.alive)

    def _close_due_windows(self) -> ClosedWindows:
        """Close the windows whose grace has passed; what they stored is published next."""
        closed = self._cohort.close_due()
        if closed.stored:
            self._releases.replace(self._cohort.unsent())
        return closed

    def _calibrate(self, received: Received, closed: ClosedWindows, *, resumed: bool) -> None:
        """Calibrate settings where the evidence, the policy or a ledger has changed; else go on with the devices'."""
        if closed.windows or received.adopted or received.restored or received.stopped or resumed:
            self._calibrate_cohort()
            self._calibrate_devices()
        elif self._calibrating:
            self._calibrate_devices()

    def _calibrate_cohort(self) -> None:
        """Calibrate the setting of each stream."""
        for stream, setting in self._cohort.calibrate().items():
            self._settings[stream] = setting.message.version
            self._topics.set_setting(self._cohort.topics.noise(stream), setting.payload)

    def _calibrate_devices(self) -> None:
        """Calibrate some device-specific settings; when all are done, publish how the accounts stand with them."""
        devices = self._cohort.calibrate_devices(PORTION_S)
        self._device_settings = devices.in_force
        for stream, settings in devices.in_force.items():
            for device, setting in settings.items():
                self._topics.set_setting(self._cohort.topics.noise(stream, device), setting.payload)
        self._calibrating = bool(devices.unfinished)
        if not self._calibrating:
            self._update_ledgers()

    def _update_policy(self) -> None:
        """Put the policy followed back where the broker has lost it or retains an older one."""
        payload = self._cohort.policy_payload
        if payload is None:
            self._topics.hold_back(self._cohort.topics.policy)
        else:
            self._topics.set_setting(self._cohort.topics.policy, payload)

    def _update_ledgers(self) -> None:
        for state in self._cohort.ledger_states():
            self._ledgers[state.stream] = state
            topic = self._cohort.topics.ledger(state.stream)
            self._topics.set_ledger(topic, encode(state))

    def _record_acknowledged(self) -> None:
        acknowledged = self._releases.take_acknowledged()
        if acknowledged:
            self._cohort.mark_sent(acknowledged)
            for one in acknowledged:
                self._topics.acknowledged(one.topic, one.payload)
            self._releases.replace(self._cohort.unsent())

    def _publish(self, *, overwrite: bool) -> None:
        """Publish what waits; what does not get through waits for the next turn."""
        if self._reconnected:
            self._reconnected = False
            self._releases.publish_again()
            self._topics.publish_again()
            self._unseen |= dict.fromkeys(self._cohort.devices())
        self._update_seen()
        try:
            self._topics.publish(self._connection, overwrite=overwrite)
            self._releases.publish(self._connection)
        except Offline:
            pass

    def _update_seen(self) -> None:
        if not self._unseen or time.monotonic() < self._seen_next:
            return
        for device, seen in newest_seen(self._unseen, self._cohort.seen_of).items():
            self._topics.set(self._cohort.topics.seen(device), encode(seen))
        self._unseen.clear()
        self._seen_next = time.monotonic() + self._config.seen_every_s

    def _report(self) -> None:
        if self._server is None or time.monotonic() < self._report_next:
            return
        self._report_next = time.monotonic() + REPORT_S
        self._server.show(
            make_report(
                self._cohort,
                self._inbox,
                connected=self._connection.connected,
                unsent=len(self._releases),
                settings=self._settings,
                device_settings=self._device_settings,
                ledgers=self._ledgers,
            )
        )

    # On the network thread:

    def _receive(self, topic: str, payload: bytes, _retained: bool) -> None:
        self._inbox.put(Arrived(topic, payload))

    def _changed(self, connected: bool) -> None:
        self._log.info("connected" if connected else "disconnected")
        self._reconnected = self._reconnected or connected
