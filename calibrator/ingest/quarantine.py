"""Devices that misbehave are quarantined and reported; the cohort goes on.

Offences: ticks from the future, noise before it was issued, a tick sent twice with different states, batches faster
than any device makes them. A few in error are forgiven; tampering is not. What a device sends in quarantine is not
counted and not `seen`, so it stays with the device and comes again later: nothing is lost by a mistake.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.calibrator.calibrator_config import DevicesSection
from hushmq.calibrator.store.tables import quarantine

OFFENCES = frozenset({Reason.FUTURE_TICK, Reason.IMPOSSIBLE_TICK, Reason.TAMPERED, Reason.TOO_FAST})


@dataclass(slots=True)
class SendingPace:
    """Batches a device may still send, as of a time: a bucket that refills."""

    left: float
    at: float


@dataclass(frozen=True, slots=True)
class Record:
    """What is held against a device."""

    reason: Reason
    strikes: int
    until: float


class Quarantine:
    """Which devices are in quarantine, and why. The records are in the database; the pace is kept in memory."""

    def __init__(self, db: Connection, limits: DevicesSection) -> None:
        self._limits = limits
        self._paces: dict[str, SendingPace] = {}
        self.records = {
            row.device: Record(Reason(row.reason), row.strikes, row.until)
            for row in db.execute(select(quarantine))
        }

    def admit(self, device: str, now: float) -> None:
        """Raise Rejected if the device is in quarantine, or sends faster than it may."""
        record = self.records.get(device)
        if record is not None and now < record.until:
            raise Rejected(Reason.QUARANTINED, f"{device} is in quarantine for {record.reason}")
        pace = self._paces.setdefault(device, SendingPace(self._limits.burst, now))
        refill = max(0.0, now - pace.at) * self._limits.messages_per_s
        pace.left, pace.at = min(self._limits.burst, pace.left + refill), now
        if pace.left < 1:
            raise Rejected(
                Reason.TOO_FAST, f"{device} sends more than {self._limits.messages_per_s:g} batches a second"
            )
        pace.left -= 1

    def blame(self, db: Connection, device: str, reason: Reason, now: float) -> bool:
        """Record an offence; True if the device goes into quarantine for it."""
        if reason not in OFFENCES:
            return False
        old = self.records.get(device)
        most = self._limits.strikes
        # Whoever comes back from quarantine has one strike left.
        before = 0 if old is None else min(old.strikes, most - 1)
        strikes = most if reason is Reason.TAMPERED else before + 1
        quarantined = strikes >= most
        record = Record(reason, strikes, now + self._limits.quarantine_s if quarantined else 0.0)
        values = {"reason": str(reason), "strikes": record.strikes, "until": record.until}
        if old is None:
            db.execute(insert(quarantine).values(device=device, **values))
        else:
            db.execute(update(quarantine).where(quarantine.c.device == device).values(**values))
        self.records[device] = record
        if quarantined:
            self._paces.pop(device, None)
        return quarantined

    def forget(self, device: str) -> None:
        """Forget what is held against a device whose record is deleted."""
        self.records.pop(device, None)
        self._paces.pop(device, None)

    def members(self, now: float) -> dict[str, Reason]:
        """The devices in quarantine at this time, and why."""
        return {device: record.reason for device, record in self.records.items() if now < record.until}
