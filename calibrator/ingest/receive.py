"""What arrives is read, judged, and handed to whoever is concerned; what is refused is counted and told of.

Batches are counted (calibrator/ingest/count_batches.py); a device's own releases are collected; a policy is
followed; a setting or a mark of ours that the broker kept is held against the database; a status tells how a
roll-out goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

from sqlalchemy import Connection
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.messages import Batch, Status, decode
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.topics import COHORT, Address, parse
from hushmq.calibrator.ingest import count_batches as ingest
from hushmq.calibrator.ingest.device_statuses import Statuses
from hushmq.calibrator.ingest.quarantine import Quarantine
from hushmq.calibrator.ledger.high_water_mark import Marks
from hushmq.calibrator.policy.clocks import Clocks
from hushmq.calibrator.policy.follow_policy import Followed
from hushmq.calibrator.settings.cohort_settings import Settings
from hushmq.calibrator.windows import collect_device_windows as collect
from hushmq.calibrator.windows.close_due_windows import Windows

known_address = lru_cache(maxsize=100_000)(parse)
"""A device uses the same topics again and again."""
QUIET_S = 60.0
"""The same refusal on the same topic is logged once in this time; it is always counted."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message as the network brought it."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """A batch that could be read, and where it came from."""

    topic: str
    arrival: ingest.Arrival


@dataclass(frozen=True, slots=True)
class Sorted:
    """Batches that could be read, and everything else."""

    batches: list[ReadBatch]
    others: list[Arrived]


@dataclass(slots=True)
class Receiver:
    """Judges what arrives. The others own what it is about."""

    cohort: str
    followed: Followed
    marks: Marks
    settings: Settings
    windows: Windows
    quarantine: Quarantine
    statuses: Statuses
    clocks: Clocks
    log: FilteringBoundLogger
    counted: int = 0
    rejected: Counter[Reason] = field(default_factory=Counter)
    _logged: dict[tuple[str, Reason], float] = field(default_factory=dict)

    def sort(self, arrived: Iterable[Arrived]) -> Sorted:
        """Read the batches; what cannot be read is refused."""
        found = Sorted([], [])
        for item in arrived:
            try:
                batch = self._read(item)
            except Rejected as rejection:
                self._reject(item.topic, rejection)
                continue
            if batch is None:
                found.others.append(item)
            else:
                found.batches.append(batch)
        return found

    def take(self, db: Connection, news: Sorted) -> set[str]:
        """Take everything in, what is no batch first; return the devices of which something was counted."""
        now = self.clocks.now()
        for item in news.others:
            with self._rejecting(item.topic):
                self._take_other(db, item, now)
        if not news.batches:
            return set()
        group = ingest.Group(db, (one.arrival.device for one in news.batches))
        possible = self._possible_ticks(now)
        touched = {one.arrival.device for one in news.batches if self._count(db, group, one, possible, now)}
        group.write()
        return touched

    def _read(self, item: Arrived) -> ReadBatch | None:
        """The batch in a message; None where it is something else."""
        address = known_address(item.topic)
        if address is None or address.cohort != self.cohort:
            raise Rejected(Reason.WRONG_ADDRESS, "not a topic of this cohort")
        if address.kind != "z" or address.device is None or address.stream is None:
            return None
        if address.device == COHORT:
            raise Rejected(Reason.WRONG_ADDRESS, f"{COHORT} is no name for a device")
        return ReadBatch(
            item.topic, ingest.Arrival(address.device, address.stream, decode(Batch, item.payload))
        )

    def _count(
        self,
        db: Connection,
        group: ingest.Group,
        one: ReadBatch,
        possible: Mapping[str, ingest.Ticks],
        now: float,
    ) -> bool:
        device, stream = one.arrival.device, one.arrival.stream
        try:
            self.quarantine.admit(device, now)
            self.counted += group.count(one.arrival, possible.get(stream))
        except Rejected as rejection:
            self._reject(one.topic, rejection)
            self._blame(db, device, rejection, now)
            return False
        self.windows.look_again(stream, one.arrival.batch.first)
        return True

    def _possible_ticks(self, now: float) -> dict[str, ingest.Ticks]:
        """By stream: the ticks that can be real at this time."""
        return {
            name: ingest.Ticks(latest=self.clocks.latest(stream, now), states=len(stream.states))
            for name, stream in self.followed.streams.items()
        }

    def _take_other(self, db: Connection, item: Arrived, now: float) -> None:
        address = parse(item.topic)
        match address.kind if address else None:
            case "release" if address and item.payload:
                self._collect(db, address, item.payload, now)
            case "policy":
                self.followed.adopt(db, item.payload)
            case "noise" if item.payload:
                self.settings.know_again(db, item.payload)
            case "ledger" if address and address.stream and item.payload:
                self.marks.check_broker(db, address.stream, item.payload)
            case "status" if address and address.device and item.payload:
                self.statuses.hear(address.device, decode(Status, item.payload))
            case "noise" | "ledger" | "status" | "release":
                pass  # somebody has cleared a retained message
            case kind:
                raise Rejected(Reason.WRONG_ADDRESS, f"nothing is read from {kind} topics")

    def _collect(self, db: Connection, address: Address, payload: bytes, now: float) -> None:
        """Keep a release that a device made; our own come back as well, and are no news."""
        name, device, window = address.stream or "", address.scope or "", address.window or ""
        stream = self.followed.streams.get(name)
        if stream is None or device == COHORT or window not in stream.device_windows:
            return
        try:
            self.quarantine.admit(device, now)
            late = collect.collect(db, address, payload, stream, latest=self.clocks.latest(stream, now))
        except Rejected as rejection:
            self._blame(db, device, rejection, now)
            raise
        self.windows.look_again(name)
        if late:
            self.log.warning("late_release", stream=name, window=window, device=device, ticks=late)

    def _blame(self, db: Connection, device: str, rejection: Rejected, now: float) -> None:
        if self.quarantine.blame(db, device, rejection.reason, now):
            self.log.error("quarantined", device=device, reason=str(rejection.reason))

    @contextmanager
    def _rejecting(self, topic: str) -> Iterator[None]:
        """Count and log a refusal, and go on."""
        try:
            yield
        except Rejected as rejection:
            self._reject(topic, rejection)

    def _reject(self, topic: str, rejection: Rejected) -> None:
        self.rejected[rejection.reason] += 1
        now = self.clocks.now()
        if now - self._logged.get((topic, rejection.reason), -QUIET_S) >= QUIET_S:
            if len(self._logged) > 10_000:
                self._logged.clear()
            self._logged[topic, rejection.reason] = now
            self.log.warning("rejected", topic=topic, reason=str(rejection.reason), detail=rejection.detail)
