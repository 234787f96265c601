"""The policy that a cohort follows: the newest that ops have signed.

Period, stride and number of states of a stream never change under its name, since its ledger counts in them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, insert, select, update
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.account_share import PricedStream, group_of, priced_streams
from hushmq.broker.contract.messages import NoiseSetting, decode
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.signature import PublicKey, Signed, verify
from hushmq.calibrator.policy.account_shares import write_shares
from hushmq.calibrator.policy.device_tilt import device_window_tilt
from hushmq.calibrator.store import tables as store


class FollowedPolicy:
    """The policy in force; none before the first has come."""

    def __init__(
        self, db: Connection, *, cohort: str, ops_keys: Iterable[PublicKey], log: FilteringBoundLogger
    ) -> None:
        self._cohort = cohort
        self._ops_keys = tuple(ops_keys)
        self._log = log
        self._priced: tuple[Policy, dict[str, PricedStream]] | None = None
        row = db.execute(select(store.policy.c.payload, store.policy.c.version)).first()
        found = None if row is None else decode_stored(row.payload)
        self.policy = None if isinstance(found, Rejected) else found
        self._stored_version = 0 if row is None else row.version
        self._payload: bytes | None = None if row is None else row.payload
        self._refused = 0
        """The highest version that ops signed and that is not followed."""
        self._unfollowed: Mapping[str, StreamPolicy] = {}
        if row is not None and isinstance(found, Rejected):
            apart = decode_apart(row.payload)
            self._unfollowed = {} if isinstance(apart, Rejected) else apart.streams
            # It was followed under older rules: nothing is followed until ops push one that keeps today's.
            log.error("stored_policy_refused", version=self._stored_version, why=str(found))

    @property
    def version(self) -> int:
        return self.policy.version if self.policy else self._stored_version

    @property
    def payload(self) -> bytes | None:
        """The signed bytes of the policy followed, as devices accept them; None where ops have signed a newer one.

        Without a policy, or one whose key ops have replaced since, there is nothing that a device would accept.
        """
        if self.policy is None or self._payload is None or self._refused > self.policy.version:
            return None
        try:
            verify(Policy, self._payload, self._ops_keys)
        except Rejected:
            return None
        return self._payload

    @property
    def streams(self) -> Mapping[str, StreamPolicy]:
        return self.policy.streams if self.policy else {}

    @property
    def last_streams(self) -> Mapping[str, StreamPolicy]:
        """The streams of the policy followed last, also where it can no longer be followed."""
        return self.policy.streams if self.policy else self._unfollowed

    @property
    def priced(self) -> Mapping[str, PricedStream]:
        """The streams as their accounts price them, for any device of the cohort."""
        if self.policy is None:
            return {}
        if self._priced is None or self._priced[0] is not self.policy:
            self._priced = self.policy, priced_streams(self.policy)
        return self._priced[1]

    def group_of(self, device: str) -> Sequence[str]:
        """The devices that share accounts with this one, itself among them."""
        return (device,) if self.policy is None else group_of(self.policy, device)

    def adopt(
        self, db: Connection, payload: bytes, now: float, *, check: Callable[[Policy], None] = lambda _: None
    ) -> Policy | None:
        """Follow a policy that ops signed and return it; None if it is the one followed already, Rejected if older.

        `now` is the calibrator's time, in seconds since 1970; `check` may reject it for what the ledger holds.
        """
        policy = verify(Policy, payload, self._ops_keys)
        if policy.cohort != self._cohort:
            raise Rejected(Reason.WRONG_ADDRESS, f"policy for cohort {policy.cohort}")
        if policy.version <= self.version:
            if policy == self.policy:
                self._keep_signature(db, payload)
                return None
            raise Rejected(Reason.STALE_VERSION, f"policy {policy.version} is not newer than {self.version}")
        before, self._refused = self._refused, max(self._refused, policy.version)
        for name, stream in policy.streams.items():
            _check_unchanged(name, self.last_streams.get(name) or _last_named(db, name), stream)
            _check_states(db, name, stream)
        check(policy)
        self._refused = before
        _keep_superseded(db)
        db.execute(delete(store.policy))
        db.execute(insert(store.policy).values(version=policy.version, payload=payload))
        # Another calibrator on this database may have followed it already.
        db.execute(delete(store.device_tilt).where(store.device_tilt.c.policy == policy.version))
        for name, stream in policy.streams.items():
            tilt = device_window_tilt(stream)
            db.execute(insert(store.device_tilt).values(stream=name, policy=policy.version, tilt=tilt))
        self.policy, self._payload = policy, payload
        write_shares(db, self.priced, policy.version, now)
        self._log.info("policy_adopted", version=policy.version)
        return policy

    def restore(self, policy: Policy | None, payload: bytes | None) -> None:
        """Follow what was followed before: the transaction that adopted a newer one is rolled back."""
        self.policy, self._payload = policy, payload

    def _keep_signature(self, db: Connection, payload: bytes) -> None:
        """Keep the policy followed under its newest signature: ops may have signed it again with another key."""
        if payload != self._payload:
            db.execute(update(store.policy).values(payload=payload))
            self._payload = payload


def decode_stored(payload: bytes) -> Policy | Rejected:
    """The policy that was stored when it was followed, or why it breaks a rule that came later."""
    try:
        return decode(Signed[Policy], payload).message
    except Rejected as rejected:
        return rejected


def decode_apart(payload: bytes) -> Policy | Rejected:
    """The same for a policy signed before streams shared accounts, as it was meant then: each stream has its own.

    Its signature covers what was signed, so nothing follows it: it says what the ledger holds.
    """
    tree = json.loads(payload)
    for stream in tree["message"]["streams"].values():
        stream["independent"] = True
    return decode_stored(json.dumps(tree).encode())


def _keep_superseded(db: Connection) -> None:
    """Keep the policy followed so far: `hushmq verify` compares what was promised under it with it."""
    until = datetime.now(UTC).isoformat(timespec="seconds")
    for row in db.execute(select(store.policy)).all():
        # A database that was restored, or another calibrator, may have followed it before.
        db.execute(delete(store.superseded_policy).where(store.superseded_policy.c.version == row.version))
        db.execute(
            insert(store.superseded_policy).values(version=row.version, until=until, payload=row.payload)
        )


def _last_named(db: Connection, name: str) -> StreamPolicy | None:
    """A stream as the last superseded policy that named it had it: one that comes back continues its ledger."""
    kept = store.superseded_policy
    for (payload,) in db.execute(select(kept.c.payload).order_by(kept.c.version.desc())):
        found = decode_stored(payload)
        if isinstance(found, Rejected):
            found = decode_apart(payload)
        if not isinstance(found, Rejected) and name in found.streams:
            return found.streams[name]
    return None


def _check_states(db: Connection, name: str, new: StreamPolicy) -> None:
    """Rejected if settings were made under this name for another number of states, however long ago."""
    row = db.execute(select(store.setting.c.payload).where(store.setting.c.stream == name).limit(1)).first()
    if row is not None and Signed[NoiseSetting].model_validate_json(row.payload).message.noise.k != len(
        new.states
    ):
        raise Rejected(
            Reason.STATES_CHANGED,
            f"{name}: the ledger has entries for another number of states under this name: use a new one",
        )


def _check_unchanged(name: str, old: StreamPolicy | None, new: StreamPolicy) -> None:
    """Rejected if the stream's ledger could not be continued under the new policy."""
    if old is not None and old.period_ms != new.period_ms:
        raise Rejected(
            Reason.PERIOD_CHANGED,
            f"{name}: ticks of {old.period_ms} ms are in the ledger and never change: use a new name",
        )
    if old is not None and old.stride != new.stride:
        raise Rejected(
            Reason.PERIOD_CHANGED,
            f"{name}: a stride of {old.stride} is in the ledger and never changes: use a new name",
        )
    if old is not None and len(old.states) != len(new.states):
        raise Rejected(
            Reason.STATES_CHANGED,
            f"{name}: {len(old.states)} states are in the ledger, and how many never changes: use a new name",
        )
