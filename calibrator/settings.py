"""The noise settings of a cohort: those in force, new ones where they are due, for all devices and for single ones.

When one is due and what it holds: calibrator/push.py, calibrator/own.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import Connection, select
from structlog.typing import FilteringBoundLogger

from broker.messages import NoiseSetting, StreamPolicy
from broker.problem import Problem, Reason, Rejected
from broker.signature import PrivateKey, verify
from calibrator import store
from calibrator.bookkeeper import Bookkeeper
from calibrator.clocks import Clocks
from calibrator.follow import Followed
from calibrator.learn import believed, believed_of_devices, last_look, progress
from calibrator.own import Maker, holders
from calibrator.push import Current, current, next_setting, store_setting


@dataclass(slots=True)
class Settings:
    """Makes settings under the policy followed, and signs them."""

    cohort: str
    key: PrivateKey
    followed: Followed
    bookkeeper: Bookkeeper
    clocks: Clocks
    log: FilteringBoundLogger
    _own: dict[str, tuple[tuple[int, ...], dict[str, Current]]] = field(default_factory=dict)

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

    def of_devices(self, db: Connection) -> dict[str, dict[str, Current]]:
        """By stream and device, the settings of devices that have their own; new ones where they are due.

        What is believed of devices changes at looks alone, so only then are they gone through.
        """
        found = {}
        for name, stream in self.followed.streams.items():
            cohorts = current(db, name, self.followed.version)
            now = progress(db, name)
            seen = (
                self.followed.version,
                cohorts.message.version if cohorts else 0,
                last_look(now.windows),
                now.contradictions,
            )
            known = self._own.get(name)
            if known is None or known[0] != seen:
                known = seen, self._make_own(db, name, stream)
                self._own[name] = known
            found[name] = known[1]
        return found

    def _make_own(self, db: Connection, name: str, stream: StreamPolicy) -> dict[str, Current]:
        account = self.bookkeeper.account(db, name, stream)
        own = believed_of_devices(db, name, stream)
        others = holders(db, name, theta=account.theta, own=own)
        if not own and not others:
            return {}
        maker = Maker(
            self.cohort,
            name,
            stream,
            self.followed.version,
            self.key,
            self.clocks.issue(stream),
            account,
            others,
        )
        found, made = maker.settings(db, own)
        for one in made:
            self.log.info(
                "own_setting_made", stream=name, device=one.message.device, version=one.message.version
            )
        return found

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
