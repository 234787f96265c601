"""The noise settings of a cohort: those in force, new ones where they are due, for all devices and for single ones.

When one is due and what it holds: calibrator/settings/calibrate.py, calibrator/settings/device_settings.py; in
which order: calibrator/settings/device_rounds.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy import Connection, select
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.messages import NoiseSetting, StreamPolicy
from hushmq.broker.contract.problem import Problem, Reason, Rejected
from hushmq.broker.contract.signature import PrivateKey, verify
from hushmq.calibrator.learning.learn_window import Progress, believed, progress
from hushmq.calibrator.ledger.accounts import Bookkeeper
from hushmq.calibrator.policy.clocks import Clocks
from hushmq.calibrator.policy.follow_policy import Followed
from hushmq.calibrator.settings.calibrate import Current, current, next_setting, store_setting
from hushmq.calibrator.settings.device_rounds import Round
from hushmq.calibrator.settings.device_settings import Maker
from hushmq.calibrator.store import tables as store


@dataclass(frozen=True, slots=True)
class _At:
    """What a round goes by: the versions of the policy and of the cohort's setting, and the last look."""

    policy: int
    cohorts: int
    look: Progress


@dataclass(slots=True)
class Settings:
    """Makes settings under the policy followed, and signs them."""

    cohort: str
    key: PrivateKey
    followed: Followed
    bookkeeper: Bookkeeper
    clocks: Clocks
    log: FilteringBoundLogger
    timer: Callable[[], float] = time.monotonic
    _rounds: dict[str, tuple[_At, Round]] = field(default_factory=dict)

    def in_force(self, db: Connection) -> dict[str, Current]:
        """The setting in force for each stream, a new one where it is due."""
        found = {}
        for name, stream in self.followed.streams.items():
            try:
                found[name] = self._of_stream(db, name, stream)
            except Problem as problem:
                self.log.warning("no_setting", stream=name, why=str(problem))
        return found

    def _of_stream(self, db: Connection, name: str, stream: StreamPolicy) -> Current:
        theta = believed(db, name, stream)
        fresh = next_setting(
            db,
            cohort=self.cohort,
            stream=name,
            policy=stream,
            policy_version=self.followed.version,
            theta=theta,
            key=self.key,
            tick=self.clocks.issue(stream),
            others=self.bookkeeper.holders(db, name, stream, theta),
        )
        if fresh is not None:
            noise = fresh.message.noise.words
            self.log.info("setting_made", stream=name, version=fresh.message.version, noise=noise)
            return fresh
        kept = current(db, name, self.followed.version)
        if kept is None:
            raise RuntimeError("no setting was made and none is in force")
        return kept

    def of_devices(self, db: Connection, for_s: float = math.inf) -> dict[str, dict[str, Current]]:
        """By stream and device, the settings of devices that have their own; new ones where they are due.

        For about so long: `making` says which streams are not through yet.
        """
        ends = self.timer() + for_s
        under_way = self._rounds_due(db)
        # What may be too weak comes first, whatever the stream.
        for maker, one in sorted(under_way, key=lambda found: not found[1].urgent):
            for made in one.go_on(db, maker, lambda: self.timer() >= ends):
                self.log.info(
                    "own_setting_made",
                    stream=maker.stream,
                    device=made.message.device,
                    version=made.message.version,
                )
            if self.timer() >= ends:
                break
        return {name: one.in_force for name, (_, one) in self._rounds.items()}

    @property
    def making(self) -> set[str]:
        """The streams of which a round has begun and is not done."""
        return {name for name, (_, one) in self._rounds.items() if not one.done}

    def _rounds_due(self, db: Connection) -> list[tuple[Maker, Round]]:
        """The rounds that are not done, a new one where what a round goes by has changed."""
        before, self._rounds = self._rounds, {}
        due = []
        for name, stream in self.followed.streams.items():
            cohorts = current(db, name, self.followed.version)
            if cohorts is None:  # no noise keeps ε
                continue
            at = _At(self.followed.version, cohorts.message.version, progress(db, name).at_look)
            known, last = before.get(name, (None, None))
            if last is not None and known == at and last.done:
                self._rounds[name] = at, last
                continue
            maker = self._maker(db, name, stream, cohorts)
            if last is None or known != at:
                last = Round(db, maker, self.bookkeeper.own(db, name, stream), last)
            self._rounds[name] = at, last
            due.append((maker, last))
        return due

    def _maker(self, db: Connection, name: str, stream: StreamPolicy, cohorts: Current) -> Maker:
        return Maker(
            self.cohort,
            name,
            stream,
            self.followed.version,
            self.key,
            self.clocks.issue(stream),
            self.bookkeeper.account(db, name, stream),
            self.bookkeeper.issued(db, name),
            cohorts,
        )

    def know_again(self, db: Connection, payload: bytes) -> None:
        """Take up a setting of our own that the database has forgotten: its version must stand for nothing else."""
        setting = verify(NoiseSetting, payload, [self.key.public])
        if setting.cohort != self.cohort:
            raise Rejected(Reason.WRONG_ADDRESS, f"setting for cohort {setting.cohort}")
        known = db.execute(
            select(store.setting.c.version).where(
                store.setting.c.stream == setting.stream, store.setting.c.version == setting.version
            )
        ).first()
        if known is None:
            # It may have been in use since any time: issued at tick 0.
            store_setting(db, Current(setting, payload), tick=0)
            self.log.warning("setting_known_again", stream=setting.stream, version=setting.version)
