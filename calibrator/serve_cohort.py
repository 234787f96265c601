"""Serves one cohort, whoever runs it: takes what has arrived, closes windows, calibrates, publishes what is stored.

At every turn: receive and count what has arrived, in one transaction; close due windows; calibrate noise settings where
the evidence or the policy has changed; publish what is stored. The connection and the loop are
the caller's (calibrator/daemon.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from sqlalchemy.exc import SQLAlchemyError

from hushmq.broker.contract.messages import LedgerState, encode
from hushmq.broker.contract.tick_runs import TickRuns
from hushmq.broker.contract.topics import parse
from hushmq.broker.mqtt.connection import Offline
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.health_report import HealthReport
from hushmq.calibrator.ingest.inbox import Inbox
from hushmq.calibrator.ingest.receive import Received
from hushmq.calibrator.ingest.seen_ticks import newest_seen
from hushmq.calibrator.ingest.settling import Settling
from hushmq.calibrator.make_report import make_report
from hushmq.calibrator.publish.outlet import Outlet
from hushmq.calibrator.publish.release_queue import ReleaseQueue
from hushmq.calibrator.publish.retained_topics import RetainedTopics
from hushmq.calibrator.settings.stored_settings import StoredSetting
from hushmq.calibrator.windows.close_due_windows import ClosedWindows

PORTION_S = 0.05
"""How long device-specific settings are calibrated before what has arrived is counted again."""
CLOSING_S = 0.2
"""How long windows are closed before what has arrived is counted again, and other cohorts have their turn."""


class ServedCohort:
    """What is held in memory about a cohort that is served. `reconnected` may be called on any thread."""

    def __init__(self, cohort: Cohort, inbox: Inbox, *, grace_s: float, seen_every_s: float) -> None:
        self.cohort, self.inbox = cohort, inbox
        self._grace_s, self._seen_every_s = grace_s, seen_every_s
        self._settling = Settling(inbox)
        self._topics = RetainedTopics()
        self._releases = ReleaseQueue()
        self._unseen: dict[str, Mapping[str, TickRuns] | None] = {}
        """Devices whose `seen` is to be published, with what is durably accounted for; None: as the database has it."""
        self._seen_next = 0.0
        self._reconnected = True
        self.settled = False
        """Whether what the broker retains of us has been taken in."""
        self.calibrating = False
        """Whether device-specific settings remain to be calibrated."""
        self._closing = False
        """Whether windows remain to be closed."""
        self.settings: dict[str, int] = {}
        """The noise version in force, by stream."""
        self._device_settings: Mapping[str, Mapping[str, StoredSetting]] = {}
        self._ledgers: dict[str, LedgerState] = {}
        self._waiting = False
        """Whether no device had applied the policy followed when settings were calibrated last."""
        self._forgotten: set[str] = set()
        """Devices whose topics are cleared; one that comes back is none of them."""

    @property
    def busy(self) -> bool:
        """Whether the last turn has left something that the next one need not wait for."""
        return self.calibrating or self._closing

    def begin(self) -> None:
        """Calibrate what is due, and take up what is stored and not yet published."""
        self._calibrate_cohort()
        self._calibrate_devices()
        self._releases.replace(self.cohort.unsent())
        for topic, payload in self.cohort.newest_releases().items():
            self._topics.acknowledged(topic, payload)
        self._clear_forgotten()

    def reconnected(self) -> None:
        """Publish everything again: the broker may have lost it."""
        self._reconnected = True

    def turn(self, outlet: Outlet, *, timeout: float = 0.0, last: bool = False) -> None:
        """Receive and count, close due windows, calibrate, publish; with `last`, also each `seen` that would wait."""
        arrived = self.inbox.take(timeout)
        try:
            received = self.cohort.receive(arrived)
        except SQLAlchemyError:
            self.inbox.put_back(arrived)
            raise
        self._update_policy()
        if received.forgotten:
            self._clear_forgotten()
        self._topics.repair_overwritten(arrived, time.monotonic())
        self.settled = self._settling.settled(connected=outlet.connected)
        caught_up = self._settling.caught_up(connected=outlet.connected, grace_s=self._grace_s)
        resumed = self.cohort.resume()
        closed = self._close_due_windows() if caught_up else ClosedWindows()
        self._closing = closed.unfinished
        self._calibrate(received, closed, resumed=resumed)
        self._record_acknowledged()
        self._unseen |= received.accounted
        self._forgotten -= received.devices
        if last:
            self._seen_next = 0.0
        if outlet.connected:
            self._publish(outlet, overwrite=self.settled)

    def report(self, *, connected: bool) -> HealthReport:
        """The report as of now."""
        return make_report(
            self.cohort,
            self.inbox,
            connected=connected,
            unsent=len(self._releases),
            settings=self.settings,
            device_settings=self._device_settings,
            ledgers=self._ledgers,
        )

    def _close_due_windows(self) -> ClosedWindows:
        """Close the windows whose grace has passed; what they stored is published next."""
        closed = self.cohort.close_due(CLOSING_S)
        if closed.stored:
            self._releases.replace(self.cohort.unsent())
        return closed

    def _calibrate(self, received: Received, closed: ClosedWindows, *, resumed: bool) -> None:
        """Calibrate settings where the evidence, the policy or a ledger has changed; else go on with the devices'.

        Also where a device has applied the policy, for which nothing was calibrated before.
        """
        applied = self._waiting and not self.cohort.nobody_applied(settled=self.settled)
        again = resumed or applied or self.cohort.calibration_due
        if closed.windows or received.adopted or received.restored or received.stopped or again:
            self._calibrate_cohort()
            self._calibrate_devices()
        elif self.calibrating:
            self._calibrate_devices()

    def _calibrate_cohort(self) -> None:
        """Calibrate the setting of each stream."""
        self._waiting = self.cohort.nobody_applied(settled=self.settled)
        for stream, setting in self.cohort.calibrate(nobody_applied=self._waiting).items():
            self.settings[stream] = setting.message.version
            self._topics.set_setting(self.cohort.topics.noise(stream), setting.payload)

    def _calibrate_devices(self) -> None:
        """Calibrate some device-specific settings; when all are done, publish how the accounts stand with them."""
        devices = self.cohort.calibrate_devices(PORTION_S)
        self._device_settings = devices.in_force
        for stream, settings in devices.in_force.items():
            for device, setting in settings.items():
                if device in self._forgotten:
                    continue
                self._topics.set_setting(self.cohort.topics.noise(stream, device), setting.payload)
        self.calibrating = bool(devices.unfinished)
        if not self.calibrating:
            self._update_ledgers()

    def _clear_forgotten(self) -> None:
        """Have the broker retain nothing about devices that are forgotten."""
        found = self.cohort.topics_of_forgotten()
        self._forgotten = set(found)
        for device, topics in found.items():
            self._unseen.pop(device, None)
            for topic in topics:
                self._topics.clear(topic)

    def _update_policy(self) -> None:
        """Put the policy followed back where the broker has lost it or retains an older one."""
        payload = self.cohort.policy_payload
        if payload is None:
            self._topics.hold_back(self.cohort.topics.policy)
        else:
            self._topics.set_setting(self.cohort.topics.policy, payload)

    def _update_ledgers(self) -> None:
        for state in self.cohort.ledger_states():
            self._ledgers[state.stream] = state
            topic = self.cohort.topics.ledger(state.stream)
            self._topics.set_ledger(topic, encode(state))

    def _record_acknowledged(self) -> None:
        acknowledged = self._releases.take_acknowledged()
        if acknowledged:
            self.cohort.mark_sent(acknowledged)
            for one in acknowledged:
                self._topics.acknowledged(one.topic, one.payload)
                address = parse(one.topic)
                if address is not None and address.scope in self._forgotten:
                    self._topics.clear(one.topic)  # it was on its way when the topic was cleared
            self._releases.replace(self.cohort.unsent())

    def _publish(self, outlet: Outlet, *, overwrite: bool) -> None:
        """Publish what waits; what does not get through waits for the next turn."""
        if self._reconnected:
            self._reconnected = False
            self._settling.begin_again()
            self.settled = overwrite = False
            self._releases.publish_again()
            self._topics.publish_again()
            self._unseen |= dict.fromkeys(self.cohort.devices())
        self._update_seen()
        try:
            self._topics.publish(outlet, overwrite=overwrite)
            self._releases.publish(outlet)
        except Offline:
            pass

    def _update_seen(self) -> None:
        if not self._unseen or time.monotonic() < self._seen_next:
            return
        for device, seen in newest_seen(self._unseen, self.cohort.seen_of).items():
            self._topics.set(self.cohort.topics.seen(device), encode(seen))
        self._unseen.clear()
        self._seen_next = time.monotonic() + self._seen_every_s
