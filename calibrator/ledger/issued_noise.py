"""The noise of every setting ever made for a stream, kept in memory behind the database.

Settings are only ever added, so that what is new since the last time is all that need be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, func, select

from hushmq.calibrator.ledger.audience_timelines import Holder
from hushmq.calibrator.models.chain_model import AnyNoise, AnyTheta, read
from hushmq.calibrator.store.tables import setting


@dataclass(slots=True)
class Issued:
    """What the states of each device can carry."""

    stream: str
    cohorts: list[AnyNoise] = field(default_factory=list)
    """The cohort's, which all of them can."""
    own: dict[str, list[tuple[int, AnyNoise]]] = field(default_factory=dict)
    """By device its own, each with the first tick that can carry it."""
    newest: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By device the policy and the version of its newest own setting."""
    _count: int = 0
    _highest: int = 0

    def follow(self, db: Connection) -> None:
        """Take up the settings that are new since the last time."""
        mine = setting.c.stream == self.stream
        count, highest = db.execute(
            select(func.count(), func.coalesce(func.max(setting.c.version), 0)).where(mine)
        ).one()
        if (count, highest) == (self._count, self._highest):
            return
        rows = db.execute(
            select(setting.c.version, setting.c.policy, setting.c.device, setting.c.issued, setting.c.noise)
            .where(mine, setting.c.version > self._highest)
            .order_by(setting.c.version)
        ).all()
        if self._count and len(rows) != count - self._count:
            # One that had been forgotten was known again, or the last transaction came to nothing.
            self.cohorts, self.own, self.newest, self._count, self._highest = [], {}, {}, 0, 0
            self.follow(db)
            return
        for row in rows:
            noise = read(row.noise)
            if row.device is None:
                self.cohorts.append(noise)
            else:
                self.own.setdefault(row.device, []).append((row.issued, noise))
                self.newest[row.device] = row.policy, row.version
        self._count, self._highest = count, highest

    def to(self, device: str) -> tuple[AnyNoise, ...]:
        """All that the states of this device can carry."""
        return *self.cohorts, *(noise for _, noise in self.own.get(device, ()))

    def holders(self, theta: AnyTheta, own: Mapping[str, AnyTheta]) -> tuple[Holder, ...]:
        """Every device that ever had a setting of its own; one of which nothing is believed has the cohort's Θ."""
        return tuple(self.holder(device, own.get(device, theta)) for device in sorted(self.own))

    def holder(self, device: str, theta: AnyTheta) -> Holder:
        return Holder(device, theta, self.to(device), tuple(self.own[device]))


def holders(
    db: Connection, stream: str, *, theta: AnyTheta, own: Mapping[str, AnyTheta]
) -> tuple[Holder, ...]:
    """The same, read anew."""
    issued = Issued(stream)
    issued.follow(db)
    return issued.holders(theta, own)
