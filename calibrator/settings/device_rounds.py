"""Device-specific settings in portions: after a theta update every device is visited, a few at each turn of the loop.

A round is due when the learned Θ, the policy or the cohort's setting has changed. Each portion is a transaction of its
own, as short as it is asked to be; between two of them the calibrator counts what arrives. First come the devices
whose setting may exceed the operator's budget: only these must not wait. Then the bounds of every device with
device-specific settings are pre-computed, so that closing a window does not wait for them; then every other device gets
a new setting where that is worth pushing.

Theorem (the middle of a round). Whatever part of a round is done, and however long it takes: the operator's promise is
kept for every device but those that follow a setting issued for a Θ which does not contain theirs; the public's is
kept for all.
Proof. A setting is issued under the learned Θ and mixes with all that was issued before (docs/theory-accounts.md, A4
and A6): neither depends on when it is issued, or after which other. A device whose turn has not come follows a setting
that, with all issued before it, kept ε under a Θ; if that contains the device's it keeps ε still, since a loss is the
largest over Θ. The public's account is checked whenever a window is closed, for what was issued by then. ∎
The devices excepted were so before the round began, when their learned Θ changed. They are the first of it.

Nothing of a round is stored: after a crash the next one finds the settings that were issued, and issues the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from hushmq.calibrator.settings.device_settings import Device, DeviceCalibration
from hushmq.calibrator.settings.stored_settings import StoredSetting, device_settings
from hushmq.pufferfish.protocols import Noise


class DeviceRound:
    """One visit to every device of a stream."""

    def __init__(
        self, db: Connection, calibration: DeviceCalibration, known: Mapping[str, StoredSetting]
    ) -> None:
        self.in_force: dict[str, StoredSetting] = _in_force(db, calibration, known)
        """By device its newest device-specific setting under the policy."""
        accounts = calibration.accounts
        everyone = [
            calibration.device(name, self.in_force.get(name))
            for name in sorted({*accounts.device_thetas, *accounts.exposures})
        ]
        urgent = {one.name for one in everyone if calibration.may_exceed_budget(one)}
        self._urgent = deque(one.name for one in everyone if one.name in urgent)
        self._to_precompute = deque(sorted(accounts.exposures))
        self._rest = deque(one.name for one in everyone if one.name not in urgent)
        self._largest_tilt: int | None = None
        self._failed: dict[str, str] = {}

    @property
    def urgent(self) -> bool:
        """Whether there are devices left whose setting may exceed the operator's budget."""
        return bool(self._urgent)

    @property
    def done(self) -> bool:
        return not (self._urgent or self._to_precompute or self._rest)

    def advance(
        self, db: Connection, calibration: DeviceCalibration, enough: Callable[[], bool]
    ) -> list[StoredSetting]:
        """Visit devices until it is enough, one at least, and return the settings issued."""
        self.in_force = _in_force(db, calibration, self.in_force)
        issued = []
        while not self.done:
            one = self._step(db, calibration)
            if one is not None:
                issued.append(one)
            if enough():
                break
        return issued

    def take_failed(self) -> dict[str, str]:
        """The devices that could not be visited since this was asked last, with the class of the error.

        Each keeps the setting that it has, until the next round.
        """
        failed, self._failed = self._failed, {}
        return failed

    def _step(self, db: Connection, calibration: DeviceCalibration) -> StoredSetting | None:
        """Visit the next device; an error that is about it, and not about the database, ends that visit alone."""
        queue = self._urgent or self._to_precompute or self._rest
        name = queue.popleft()
        try:
            if queue is self._urgent:
                return self._visit_urgent(db, calibration, name)
            if queue is self._to_precompute:
                calibration.accounts.precompute(name)
                return None
            return self._visit(db, calibration, name)
        except SQLAlchemyError:
            raise
        except Exception as error:  # noqa: BLE001  # one device never stops the others
            self._failed[name] = type(error).__name__
            return None

    def _visit_urgent(
        self, db: Connection, calibration: DeviceCalibration, name: str
    ) -> StoredSetting | None:
        """Issue a setting if the device needs one; else it is visited again with the rest."""
        device = calibration.device(name, self.in_force.get(name))
        noise = calibration.needed_noise(device)
        if noise is None:
            self._rest.append(name)
            return None
        return self._issue(db, calibration, device, noise)

    def _visit(self, db: Connection, calibration: DeviceCalibration, name: str) -> StoredSetting | None:
        """Issue a setting if the device needs one, or if a better one is worth pushing."""
        if self._largest_tilt is None:
            self._largest_tilt = calibration.largest_planned_tilt()
        device = calibration.device(name, self.in_force.get(name))
        noise = calibration.needed_noise(device)
        if noise is None:
            noise = calibration.better_noise(device, self._largest_tilt)
        issued = None if noise is None else self._issue(db, calibration, device, noise)
        if name in calibration.accounts.exposures:
            calibration.accounts.precompute(name)
        return issued

    def _issue(
        self, db: Connection, calibration: DeviceCalibration, device: Device, noise: Noise
    ) -> StoredSetting | None:
        with db.begin_nested():  # all of it, or nothing
            issued = calibration.issue(db, device, noise)
        if issued is not None:
            self.in_force[device.name] = issued
        return issued


def _in_force(
    db: Connection, calibration: DeviceCalibration, known: Mapping[str, StoredSetting]
) -> dict[str, StoredSetting]:
    """The newest device-specific settings under the policy: those known, unless another calibrator issued some."""
    accounts, policy = calibration.accounts, calibration.issuer.policy_version
    versions = {device: version for device, (of, version) in accounts.issued.newest.items() if of == policy}
    if versions == {device: one.message.version for device, one in known.items()}:
        return dict(known)
    return device_settings(db, accounts.stream, policy)
