"""The calibrator's loop: the network thread fills the inbox, this thread does everything else.

At every turn: receive and count what has arrived, in one transaction; close due windows; calibrate noise settings where
the evidence or the policy has changed; publish what is stored.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.messages import LedgerState, encode
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import SHARDS, Topics
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.broker.service.systemd import Systemd
from hushmq.calibrator.calibrator_config import Config
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.health_report import HealthReport
from hushmq.calibrator.health_server import HealthServer
from hushmq.calibrator.ingest.inbox import Arrived, Inbox
from hushmq.calibrator.ingest.receive import Received
from hushmq.calibrator.ingest.settling import Settling
from hushmq.calibrator.publish.release_queue import ReleaseQueue
from hushmq.calibrator.publish.retained_topics import RetainedTopics
from hushmq.calibrator.settings.stored_settings import StoredSetting
from hushmq.calibrator.store.open_database import open_store
from hushmq.calibrator.windows.close_due_windows import ClosedWindows

IDLE_S = 0.1
"""How long a turn waits for messages when there is nothing else to do."""
PORTION_S = 0.05
"""How long device-specific settings are calibrated before what has arrived is counted again."""
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
    ) -> None:
        self._config = config
        self._load = reload
        self._log = log
        self._engine = open_store(config.database, log=log)
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
        self._inbox = Inbox(log)
        self._settling = Settling(self._inbox)
        self._topics = RetainedTopics()
        self._releases = ReleaseQueue()
        self._unseen: set[str] = set()
        """Devices whose `seen` is to be published."""
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
            subscriptions=_subscriptions(self._cohort.topics, config.shards),
            on_message=self._receive,
            on_change=self._changed,
            window=100,
            subscribe_twice=True,
            log=log,
        )

    @property
    def metrics_port(self) -> int | None:
        return self._server.port if self._server else None

    def run(self) -> Config | None:
        """Work until asked to stop, publish what is stored and leave; after a reload return the new settings."""
        self._connection.start()
        try:
            self._calibrate_cohort()
            self._calibrate_devices()
            self._releases.replace(self._cohort.unsent())
            self._systemd.notify("READY=1")
            while not self._stopping:
                self._turn(timeout=0.0 if self._calibrating else IDLE_S)
                self._reload_if_asked()
            self._systemd.notify("RELOADING=1" if self._successor else "STOPPING=1")
            self._seen_next = 0.0
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
        """Receive and count, close due windows, calibrate, publish."""
        arrived = self._inbox.take(timeout)
        received = self._cohort.receive(arrived)
        self._topics.repair_overwritten(arrived, time.monotonic())
        settled = self._settling.settled(connected=self._connection.connected)
        caught_up = self._settling.caught_up(
            connected=self._connection.connected, grace_s=self._config.grace_s
        )
        closed = self._close_due_windows() if caught_up else ClosedWindows()
        self._calibrate(received, closed)
        self._record_acknowledged()
        self._unseen |= received.devices
        if self._connection.connected:
            self._publish(overwrite=settled)
        self._report()
        self._systemd.feed(healthy=self._connection.alive)

    def _close_due_windows(self) -> ClosedWindows:
        """Close the windows whose grace has passed; what they stored is published next."""
        closed = self._cohort.close_due()
        if closed.stored:
            self._releases.replace(self._cohort.unsent())
        return closed

    def _calibrate(self, received: Received, closed: ClosedWindows) -> None:
        """Calibrate settings where the evidence, the policy or a ledger has changed; else go on with the devices'."""
        if closed.windows or received.adopted or received.stopped:
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

    def _update_ledgers(self) -> None:
        for state in self._cohort.ledger_states():
            self._ledgers[state.stream] = state
            topic = self._cohort.topics.ledger(state.stream)
            if state.seal is not None:
                self._topics.set_ledger(topic, encode(state))
            else:  # the mark on the broker is the only one that shows that the database is an old one
                self._topics.hold_back(topic)

    def _record_acknowledged(self) -> None:
        acknowledged = self._releases.take_acknowledged()
        if acknowledged:
            self._cohort.mark_sent(acknowledged)
            self._releases.replace(self._cohort.unsent())

    def _publish(self, *, overwrite: bool) -> None:
        """Publish what waits; what does not get through waits for the next turn."""
        if self._reconnected:
            self._reconnected = False
            self._releases.publish_again()
            self._topics.publish_again()
            for stream in self._cohort.stopped:
                self._topics.hold_back(self._cohort.topics.ledger(stream))
            self._unseen |= self._cohort.devices()
        self._update_seen()
        try:
            self._topics.publish(self._connection, overwrite=overwrite)
            self._releases.publish(self._connection)
        except Offline:
            pass

    def _update_seen(self) -> None:
        if not self._unseen or time.monotonic() < self._seen_next:
            return
        for device, seen in self._cohort.seen_of(self._unseen).items():
            self._topics.set(self._cohort.topics.seen(device), encode(seen))
        self._unseen.clear()
        self._seen_next = time.monotonic() + self._config.seen_every_s

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
            HealthReport(
                connected=self._connection.connected,
                policy=cohort.policy.version if cohort.policy else None,
                inbox=len(self._inbox),
                dropped=self._inbox.dropped,
                ticks_counted=cohort.counted,
                released=cohort.released,
                refused=cohort.refused,
                unsent=len(self._releases),
                devices=len(statuses),
                online=len(online),
                quarantined={device: str(reason) for device, reason in cohort.quarantined().items()},
                rejected={str(reason): count for reason, count in cohort.rejected.items()},
                refusing=refusing,
                settings=dict(self._settings),
                behind={
                    stream: sum(
                        stream in one.streams
                        and one.streams[stream].noise != self._version_for(stream, device)
                        for device, one in statuses.items()
                        if one.online is not False
                    )
                    for stream in self._settings
                },
                filled=dict(cohort.filled),
                left_out=cohort.left_out(),
                own={stream: len(devices) for stream, devices in self._device_settings.items()},
                ledgers=dict(self._ledgers),
                stopped=stopped | cohort.stopped,
            )
        )

    def _version_for(self, stream: str, device: str) -> int:
        """The version the device should follow: the newer of the cohort's and of its device-specific setting."""
        specific = self._device_settings.get(stream, {}).get(device)
        return max(self._settings[stream], specific.message.version if specific else 0)

    # On the network thread:

    def _receive(self, topic: str, payload: bytes, _retained: bool) -> None:
        self._inbox.put(Arrived(topic, payload))

    def _changed(self, connected: bool) -> None:
        self._log.info("connected" if connected else "disconnected")
        self._reconnected = self._reconnected or connected


def _subscriptions(topics: Topics, shards: tuple[str, ...]) -> list[str]:
    batches = topics.all("z")
    return [
        topics.policy,
        *([batches] if len(shards) == SHARDS else (f"{batches.removesuffix('#')}{one}/#" for one in shards)),
        *(topics.all(kind) for kind in ("status", "noise", "ledger", "release")),
    ]
