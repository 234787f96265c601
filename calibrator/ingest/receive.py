"""Read what arrives, check it, and hand each message to the part of the calibrator that it concerns.

Batches are counted (calibrator/ingest/count_batches.py); releases that devices made are collected; a policy is
followed; a noise setting or high-water mark of ours that the broker retained is compared with the database; a status
says how far a device has come. What is refused is counted and logged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.messages import Batch, Status, decode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.tick_runs import TickRuns
from hushmq.broker.contract.topics import COHORT, Address, parse
from hushmq.calibrator.ingest.count_batches import BatchGroup, DeviceBatch, Ticks
from hushmq.calibrator.ingest.device_statuses import DeviceStatuses
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.ingest.quarantine import Quarantine
from hushmq.calibrator.ledger.high_water_mark import HighWaterMarks
from hushmq.calibrator.ledger.policy_epochs import begin_epochs_of_policy, check_epoch_numbers
from hushmq.calibrator.policy.clocks import Clocks
from hushmq.calibrator.policy.follow_policy import FollowedPolicy
from hushmq.calibrator.roster.admission import Admission, Candidate
from hushmq.calibrator.roster.forgotten import forgotten_devices
from hushmq.calibrator.settings.cohort_settings import CohortSettings
from hushmq.calibrator.windows.closed_windows import resume_sequences
from hushmq.calibrator.windows.collect_device_windows import collect_release

known_address = lru_cache(maxsize=100_000)(parse)
"""A device uses the same topics again and again."""
QUIET_S = 60.0
"""The same refusal on the same topic is logged once in this time; it is always counted."""
LOGGED_AT_MOST = 10_000
"""Refusals whose last logging is remembered."""


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """A batch that could be read, and the topic it came on."""

    topic: str
    sent: DeviceBatch


@dataclass(frozen=True, slots=True)
class SortedMessages:
    """Batches that could be read, and everything else."""

    batches: list[ReadBatch]
    others: list[Arrived]


@dataclass(frozen=True, slots=True)
class Received:
    """What a group of messages changed."""

    accounted: Mapping[str, Mapping[str, TickRuns]] = field(default_factory=dict)
    """Of the devices of which a batch was counted, what is durably accounted for: `seen` is to say so."""
    first_ticks: Mapping[str, int] = field(default_factory=dict)
    """By stream, the first tick of which states were counted or a release was collected."""
    adopted: Policy | None = None
    """The policy that is followed from now on, if a new one came."""
    restored: bool = False
    """Whether a setting of ours came back that the database had lost."""
    stopped: Mapping[str, str] = field(default_factory=dict)
    """Streams that charge nothing from now on, because their ledger does not reach a high-water mark, and why."""
    forgotten: frozenset[str] = frozenset()
    """Devices whose status was cleared because they are forgotten: their other topics are to be cleared, too."""

    @property
    def devices(self) -> frozenset[str]:
        """The devices of which a batch was counted."""
        return frozenset(self.accounted)


@dataclass(slots=True)
class _Changes:
    """Collects what the messages of one group change."""

    devices: set[str] = field(default_factory=set)
    accounted: dict[str, dict[str, TickRuns]] = field(default_factory=dict)
    first_ticks: dict[str, int] = field(default_factory=dict)
    adopted: Policy | None = None
    restored: bool = False
    stopped: dict[str, str] = field(default_factory=dict)
    counted: list[Candidate] = field(default_factory=list)
    cleared: set[str] = field(default_factory=set)
    forgotten: frozenset[str] = frozenset()

    def arrived(self, stream: str, first: int) -> None:
        self.first_ticks[stream] = min(first, self.first_ticks.get(stream, first))

    def result(self) -> Received:
        return Received(
            self.accounted, self.first_ticks, self.adopted, self.restored, self.stopped, self.forgotten
        )


@dataclass(slots=True)
class Receiver:
    """Checks what arrives, and hands it to the owner of what it is about."""

    cohort: str
    followed: FollowedPolicy
    marks: HighWaterMarks
    settings: CohortSettings
    quarantine: Quarantine
    admission: Admission
    statuses: DeviceStatuses
    clocks: Clocks
    log: FilteringBoundLogger
    counted: int = 0
    """Ticks counted since the start."""
    rejected: Counter[Reason] = field(default_factory=Counter)
    """Messages refused since the start, by reason."""
    _logged: dict[tuple[str, Reason], float] = field(default_factory=dict)

    def sort(self, arrived: Iterable[Arrived]) -> SortedMessages:
        """Read the batches; what cannot be read is refused."""
        found = SortedMessages([], [])
        for item in arrived:
            with self._rejecting(item.topic):
                batch = self._read(item)
                if batch is None:
                    found.others.append(item)
                else:
                    found.batches.append(batch)
        return found

    def take(self, db: Connection, messages: SortedMessages) -> Received:
        """Handle everything in the caller's transaction, messages other than batches first."""
        now = self.clocks.now()
        changes = _Changes()
        for item in messages.others:
            with self._rejecting(item.topic):
                self._take_other(db, item, now, changes)
        if changes.cleared:
            changes.forgotten = forgotten_devices(db) & changes.cleared
            for device in changes.forgotten:
                self.quarantine.forget(device)
        if messages.batches:
            sent = [one.sent for one in messages.batches]
            group = BatchGroup(db, (one.device for one in sent), sent)
            possible = self._possible_ticks(now)
            for one in messages.batches:
                self._count(db, group, one, possible, now, changes)
            group.write()
            changes.accounted = group.accounted(changes.devices)
            for one_more in self.admission.admit(db, changes.counted, self.followed.streams):
                changes.arrived(one_more.stream, one_more.first)
        return changes.result()

    def _read(self, item: Arrived) -> ReadBatch | None:
        """The batch in a message; None where it is something else."""
        address = known_address(item.topic)
        if address is None or address.cohort != self.cohort:
            raise Rejected(Reason.WRONG_ADDRESS, "not a topic of this cohort")
        if address.kind != "z" or address.device is None or address.stream is None:
            return None
        if address.device == COHORT:
            raise Rejected(Reason.WRONG_ADDRESS, f"{COHORT} is no name for a device")
        return ReadBatch(item.topic, DeviceBatch(address.device, address.stream, decode(Batch, item.payload)))

    def _count(
        self,
        db: Connection,
        group: BatchGroup,
        one: ReadBatch,
        possible: Mapping[str, Ticks],
        now: float,
        changes: _Changes,
    ) -> None:
        device, stream = one.sent.device, one.sent.stream
        counted = False
        with self._rejecting(one.topic), self._blaming(db, device, now):
            self.quarantine.admit(device, now)
            self.counted += group.count(one.sent, possible.get(stream))
            counted = True
        if not counted:
            return
        changes.devices.add(device)
        changes.counted.append(Candidate(stream, device, one.sent.batch.first))
        changes.arrived(stream, one.sent.batch.first)

    def _possible_ticks(self, now: float) -> dict[str, Ticks]:
        """By stream: the ticks that can be real at this time."""
        return {
            name: Ticks(latest=self.clocks.latest(stream, now), states=len(stream.states))
            for name, stream in self.followed.streams.items()
        }

    def _take_other(self, db: Connection, item: Arrived, now: float, changes: _Changes) -> None:
        match parse(item.topic):
            case Address(kind="policy"):
                changes.adopted = self._follow(db, item.payload) or changes.adopted
            case Address(kind="status", device=str(device)) if not item.payload:
                self.statuses.remove(device)
                changes.cleared.add(device)
            case Address(kind="noise" | "ledger" | "status" | "release") if not item.payload:
                pass  # somebody has cleared a retained message
            case Address(kind="release", stream=str(stream), window=str(window), scope=str(device)):
                self._collect(db, stream, window, device, item.payload, now, changes)
            case Address(kind="noise"):
                changes.restored |= self.settings.restore(db, item.payload)
            case Address(kind="ledger", stream=str(stream)):
                reason = self.marks.check_broker(db, stream, item.payload)
                if reason is not None:
                    changes.stopped[stream] = reason
            case Address(kind="status", device=str(device)):
                self.statuses.update(device, decode(Status, item.payload))
            case Address(kind="noise" | "ledger" | "status" | "release"):
                pass
            case address:
                kind = address.kind if address else None
                raise Rejected(Reason.WRONG_ADDRESS, f"nothing is read from {kind} topics")

    def _follow(self, db: Connection, payload: bytes) -> Policy | None:
        """Follow a policy, and begin the epochs that it is a reason for; the windows that it adds begin now."""
        policy, signed, before = self.followed.policy, self.followed.payload, self.followed.last_streams
        try:
            with db.begin_nested():
                adopted = self.followed.adopt(
                    db, payload, self.clocks.now(), check=lambda policy: check_epoch_numbers(db, policy)
                )
                if adopted is None:
                    return None
                epochs = begin_epochs_of_policy(db, policy, before, adopted, self.clocks.first_issued)
                for name, stream in adopted.streams.items():
                    resume_sequences(db, name, before.get(name), stream, now=self.clocks.tick(stream))
        except BaseException:
            self.followed.restore(policy, signed)
            raise
        for begun in epochs:
            begun.report(self.log)
        return adopted

    def _collect(
        self,
        db: Connection,
        name: str,
        window: str,
        device: str,
        payload: bytes,
        now: float,
        changes: _Changes,
    ) -> None:
        """Store a release that a device made. Those of the calibrator come back as well, and are ignored."""
        stream = self.followed.streams.get(name)
        if stream is None or device == COHORT or window not in stream.device_windows:
            return
        latest = self.clocks.latest(stream, now)
        with self._blaming(db, device, now):
            self.quarantine.admit(device, now)
            late = collect_release(db, name, window, device, payload, policy=stream, latest=latest)
        changes.arrived(name, 0)
        if late:
            self.log.warning("late_release", stream=name, window=window, device=device, ticks=late)

    @contextmanager
    def _blaming(self, db: Connection, device: str, now: float) -> Iterator[None]:
        """Hold a refusal against the device that sent the message."""
        try:
            yield
        except Rejected as rejection:
            if self.quarantine.blame(db, device, rejection.reason, now):
                self.log.error("quarantined", device=device, reason=str(rejection.reason))  # noqa: TRY400
            raise

    @contextmanager
    def _rejecting(self, topic: str) -> Iterator[None]:
        """Count and log a refusal, and go on.

        A message on which our own code fails is refused as well: one that ended the loop would end it again after every
        restart, since the broker or the device sends it again. An error's text may hold data: its class is logged.
        """
        try:
            yield
        except Rejected as rejection:
            self._reject(topic, rejection)
        except SQLAlchemyError:
            raise  # about the database, not about the message
        except Exception as error:  # noqa: BLE001
            self._reject(topic, Rejected(Reason.MALFORMED, f"it cannot be used: {type(error).__name__}"))

    def _reject(self, topic: str, rejection: Rejected) -> None:
        self.rejected[rejection.reason] += 1
        now = self.clocks.now()
        key = _sender(topic), rejection.reason
        last = self._logged.get(key)
        if last is None or now - last >= QUIET_S:
            if len(self._logged) > LOGGED_AT_MOST:
                self._logged.clear()
            self._logged[key] = now
            self.log.warning("rejected", topic=topic, reason=str(rejection.reason), detail=rejection.detail)


def _sender(topic: str) -> str:
    """Whom a refusal is logged for: the device that may publish there, or else the kind of topic.

    A device may write to topics of as many streams as it can invent: its refusals are those of one sender.
    """
    address = parse(topic)
    return "" if address is None else address.device or address.scope or address.kind
