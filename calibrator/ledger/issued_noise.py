"""The noise of every setting ever issued for a stream, as a copy in memory of what the database holds.

Settings are only ever added, so that only those that are new since the last time are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, bindparam, func, select

from hushmq.calibrator.ledger.device_exposure import DeviceExposure
from hushmq.calibrator.models.choose_model import read_noise
from hushmq.calibrator.store.tables import setting
from hushmq.pufferfish.protocols import Noise, Theta


@dataclass(frozen=True, slots=True)
class NewSettings:
    """Whose settings are new: the cohort's, which every device can carry, or those of some devices."""

    of_cohort: bool
    devices: frozenset[str]


NOTHING_NEW = NewSettings(of_cohort=False, devices=frozenset())


@dataclass(slots=True)
class IssuedNoise:
    """The noise that the states of each device can carry."""

    stream: str
    cohort: list[Noise] = field(default_factory=list)
    """Of the cohort's settings, which every device can carry."""
    by_device: dict[str, list[tuple[int, Noise]]] = field(default_factory=dict)
    """Of device-specific settings, each with the first tick that can carry it."""
    newest: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By device the policy and the version of its newest device-specific setting."""
    versions: dict[str | None, list[tuple[int, Noise]]] = field(default_factory=dict)
    """By device, None for the cohort, each noise with its version."""
    _count: int = 0
    _highest: int = 0

    def follow(self, db: Connection) -> NewSettings:
        """Read the settings that are new since the last time, and return whose they are."""
        mine = setting.c.stream == self.stream
        count, highest = db.execute(
            select(func.count(), func.coalesce(func.max(setting.c.version), 0)).where(mine)
        ).one()
        if (count, highest) == (self._count, self._highest):
            return NOTHING_NEW
        rows = db.execute(
            select(setting.c.version, setting.c.policy, setting.c.device, setting.c.issued, setting.c.noise)
            .where(mine, setting.c.version > self._highest)
            .order_by(setting.c.version)
        ).all()
        if self._count and len(rows) != count - self._count:
            # An older setting was restored, or the transaction that made the newest was rolled back.
            self.cohort, self.by_device, self.newest, self.versions = [], {}, {}, {}
            self._count = self._highest = 0
            return NewSettings(of_cohort=True, devices=self.follow(db).devices)
        for row in rows:
            noise = read_noise(row.noise)
            self.versions.setdefault(row.device, []).append((row.version, noise))
            if row.device is None:
                self.cohort.append(noise)
            else:
                self.by_device.setdefault(row.device, []).append((row.issued, noise))
                self.newest[row.device] = row.policy, row.version
        self._count, self._highest = count, highest
        devices = [row.device for row in rows]
        return NewSettings(None in devices, frozenset(device for device in devices if device is not None))

    def noises_of(self, device: str) -> tuple[Noise, ...]:
        """All noise that the states of this device can carry."""
        return *self.cohort, *(noise for _, noise in self.by_device.get(device, ()))

    def noises_since(self, version: int, device: str | None = None) -> tuple[Noise, ...]:
        """The noise of settings above this version that the states of the device, or of any device, can carry."""
        found = [*self.versions.get(None, ()), *(self.versions.get(device, ()) if device is not None else ())]
        return tuple(noise for each, noise in found if each > version)

    def exposure(self, device: str, theta: Theta) -> DeviceExposure:
        """The exposure of a device that has, or had, device-specific settings."""
        return DeviceExposure(device, theta, self.noises_of(device), tuple(self.by_device[device]))


_ISSUED = select(setting.c.version, setting.c.noise, setting.c.issued).where(
    setting.c.stream == bindparam("stream")
)
_ISSUED_TO_ALL = _ISSUED.where(setting.c.device.is_(None))


def issued_noises(
    db: Connection, stream: str, *, of_cohort: bool = False, by: int | None = None
) -> Mapping[int, Noise]:
    """The noise of every setting for the stream, by version: of those for all devices, that a tick `by` can carry."""
    return {
        version: read_noise(noise)
        for version, noise, issued in db.execute(_ISSUED_TO_ALL if of_cohort else _ISSUED, {"stream": stream})
        if by is None or issued <= by
    }
