"""The noise settings of a cohort: those in force, and new ones where they are due, for all devices and for single ones.

When one is due and what it holds: calibrator/settings/calibrate.py, calibrator/settings/device_settings.py; in which
order: calibrator/settings/device_rounds.py.

What was never signed was never used, and costs nothing: while devices are known and none of them has applied the policy
followed, no setting is issued under it (calibrator/ingest/device_statuses.py). A policy that all refuse leaves no trace
in the noise of those that follow it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PrivateKey
from hushmq.calibrator.ledger.accounts import Accounts, Basis
from hushmq.calibrator.policy.clocks import Clocks
from hushmq.calibrator.policy.failing_streams import FailingStreams
from hushmq.calibrator.policy.follow_policy import FollowedPolicy
from hushmq.calibrator.settings.calibrate import Issuer, calibrate_cohort
from hushmq.calibrator.settings.device_rounds import DeviceRound
from hushmq.calibrator.settings.device_settings import DeviceCalibration
from hushmq.calibrator.settings.stored_settings import StoredSetting, cohort_setting, restore_setting


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """Device-specific settings by stream and device, and the streams of which some remain to be calibrated."""

    in_force: Mapping[str, Mapping[str, StoredSetting]]
    unfinished: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Round:
    """A round, and what it depends on: the accounts' basis and the version of the cohort's setting."""

    basis: Basis
    cohort_version: int
    round: DeviceRound


@dataclass(slots=True)
class CohortSettings:
    """Calibrates settings under the policy followed, and signs them."""

    cohort: str
    key: PrivateKey
    followed: FollowedPolicy
    accounts: Accounts
    clocks: Clocks
    log: FilteringBoundLogger
    timer: Callable[[], float] = time.monotonic
    failed: FailingStreams = field(init=False)
    """Streams whose setting could not be calibrated at the last attempt: what was issued before stays in force."""
    failed_rounds: FailingStreams = field(init=False)
    """The same for device-specific settings."""
    _rounds: dict[str, _Round] = field(default_factory=dict)
    _said: set[tuple[str, str, str]] = field(default_factory=set)
    """Streams, devices and reasons of what failed for single devices."""

    def __post_init__(self) -> None:
        self.failed, self.failed_rounds = (
            FailingStreams(f"its {which} cannot be calibrated", self.clocks, self.log, self.accounts.reset)
            for which in ("setting", "device-specific settings")
        )

    def calibrate(self, db: Connection, *, nobody_applied: bool = False) -> dict[str, StoredSetting]:
        """The setting in force for each stream, newly issued where one is due; none where no noise keeps the budget.

        With `nobody_applied` none where the policy followed has no setting yet: it waits for a device to apply it.
        """
        found = {}
        for stream in self.followed.streams:
            if nobody_applied and cohort_setting(db, stream, self.followed.version) is None:
                continue
            with self.failed.one(stream), db.begin_nested():
                one = self._calibrate(db, stream)
                if one is not None:
                    found[stream] = one
            if stream in self.failed.why:
                old = cohort_setting(db, stream, self.followed.version)
                if old is not None:
                    found[stream] = old
        return found

    def _calibrate(self, db: Connection, stream: str) -> StoredSetting | None:
        """The setting in force for a stream; None where no noise keeps the budget."""
        try:
            one = calibrate_cohort(db, self.accounts.open(db, stream), self._issuer(stream))
        except Problem as problem:
            self.log.warning("no_setting", stream=stream, why=str(problem))
            return None
        if one.issued:
            message = one.setting.message
            self.log.info(
                "setting_made", stream=stream, version=message.version, noise=message.noise.noise.in_words()
            )
        return one.setting

    def calibrate_devices(self, db: Connection, for_s: float = math.inf) -> DeviceSettings:
        """The device-specific settings in force, newly issued where they are due, for about `for_s` seconds."""
        ends = self.timer() + for_s
        due = self._due_rounds(db)
        # What may exceed the operator's budget comes first, whatever the stream.
        for calibration, one in sorted(due, key=lambda found: not found[1].urgent):
            stream = calibration.accounts.stream
            for issued in one.advance(db, calibration, lambda: self.timer() >= ends):
                self.log.info(
                    "device_setting_made",
                    stream=stream,
                    device=issued.message.device,
                    version=issued.message.version,
                )
            for device, why in one.take_failed().items():
                if (stream, device, why) not in self._said:
                    self.log.error("device_failed", stream=stream, device=device, why=why)
                self._said.add((stream, device, why))
            if self.timer() >= ends:
                break
        in_force = {stream: one.round.in_force for stream, one in self._rounds.items()}
        return DeviceSettings(in_force, self.unfinished)

    @property
    def unfinished(self) -> frozenset[str]:
        """Streams whose device-specific settings are not all calibrated."""
        return frozenset(stream for stream, one in self._rounds.items() if not one.round.done)

    def restore(self, db: Connection, payload: bytes) -> bool:
        """Re-insert a setting of ours that the broker retained and the database lacks; True if it was lacking."""
        restored = restore_setting(db, self.cohort, self.key, payload)
        if restored is not None:
            self.log.warning("setting_restored", stream=restored.stream, version=restored.version)
        return restored is not None

    def _due_rounds(self, db: Connection) -> list[tuple[DeviceCalibration, DeviceRound]]:
        """The rounds that are not done, a new one where what a round depends on has changed."""
        before, self._rounds = self._rounds, {}
        due = []
        for stream in self.followed.streams:
            with self.failed_rounds.one(stream):
                found = self._due_round(db, stream, before.get(stream))
                if found is not None:
                    due.append(found)
        return due

    def _due_round(
        self, db: Connection, stream: str, last: _Round | None
    ) -> tuple[DeviceCalibration, DeviceRound] | None:
        """The round of a stream, a new one where what the last one depends on has changed; None where it is done."""
        cohort = cohort_setting(db, stream, self.followed.version)
        if cohort is None:  # no noise keeps the operator's budget
            return None
        basis, version = self.accounts.basis(db, stream), cohort.message.version
        same = last is not None and (last.basis, last.cohort_version) == (basis, version)
        if last is not None and same and last.round.done:
            self._rounds[stream] = last
            return None
        calibration = DeviceCalibration(self.accounts.open(db, stream), self._issuer(stream), cohort)
        if last is None or not same:
            known = {} if last is None else last.round.in_force
            last = _Round(basis, version, DeviceRound(db, calibration, known))
        self._rounds[stream] = last
        return calibration, last.round

    def _issuer(self, stream: str) -> Issuer:
        tick = self.clocks.first_issued(self.followed.streams[stream])
        return Issuer(self.cohort, self.key, self.followed.version, tick)
