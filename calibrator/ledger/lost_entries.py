"""What a ledger that was restored from an old backup has lost, and the most that it can have cost.

The marks say that entries are missing, not what they charged. The bound needs neither: whatever was released about a
tick, and whatever noise it carried, was priced within the budget of the policy in force, and a loss is never below the
tilt of its own tick. So at every tick from the first that an unknown window can have covered up to now, the true state
was tilted by no more than ε, for each audience (docs/theory-accounts.md, A11).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Row, func, select

from hushmq.broker.contract.account_share import priced_streams
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem, Rejected
from hushmq.broker.contract.reconciliation import LostStretch
from hushmq.calibrator.ledger.high_water_mark import HighWaterMark, mark_of
from hushmq.calibrator.policy.follow_policy import decode_stored
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.calibrator.store import tables as store


def lost_stretch(
    db: Connection,
    stream: str,
    mark: HighWaterMark,
    *,
    now: float,
    given: Iterable[Policy] = (),
    settings: int = 0,
) -> LostStretch:
    """What is charged to a stream whose ledger does not reach this mark.

    `given` are policies that the database has lost, `settings` is the highest version of a setting that devices state.
    Problem where a policy that can have been in force is missing.
    """
    have = mark_of(db, stream)
    policies = policies_meanwhile(db, stream, given)
    priced = {version: priced_streams(one)[stream] for version, one in policies.items()}
    if not priced:
        raise Problem(f"{stream}: the database has followed no policy with it: start the calibrator once")
    newest = priced[max(priced)].policy
    replaced = have.entries >= mark.entries
    closed = _closed(db, stream, policies.values())
    known = [int(row.through) for row in closed]
    last_charged = db.execute(
        select(func.max(store.ledger.c.last)).where(
            store.ledger.c.stream == stream, store.ledger.c.audience == "public"
        )
    ).scalar()
    highest = db.execute(
        select(func.max(store.setting.c.version)).where(store.setting.c.stream == stream)
    ).scalar()
    # A ledger that was replaced says nothing of where the other one began to differ.
    first = 0 if replaced or not known else min(known) + 1
    last = max([int(now * 1000) // newest.stride_ms, first, *known, last_charged or 0])
    return LostStretch(
        entries=mark.entries,
        head=mark.head,
        after=have.entries,
        after_head=have.head,
        first=first,
        last=last,
        public=max(_nano(one.policy.epsilon.public / one.devices) for one in priced.values()),
        operator=max(_nano(one.policy.epsilon.operator * one.policy.tilt_share) for one in priced.values()),
        settings=max(highest or 0, settings),
        policies=tuple(sorted(priced)),
    )


def policies_meanwhile(db: Connection, stream: str, given: Iterable[Policy] = ()) -> dict[int, Policy]:
    """The policies with the stream, by version, that can have been in force since its last entry.

    Those followed since, and the given ones; Problem where a version between them is missing or cannot be read.
    """
    since = db.execute(select(func.max(store.ledger.c.at)).where(store.ledger.c.stream == stream)).scalar()
    rows: list[Row[Any]] = [
        *db.execute(
            select(store.superseded_policy.c.version, store.superseded_policy.c.payload).where(
                store.superseded_policy.c.until >= (since or "")
            )
        ),
        *db.execute(select(store.policy)),
    ]
    found: dict[int, Policy] = {one.version: one for one in given}
    for row in rows:
        policy = decode_stored(row.payload)
        if isinstance(policy, Rejected):
            raise Problem(
                f"policy {row.version} is no longer valid: give one that is with --policy: {policy.detail}"
            )
        found[row.version] = policy
    missing = [
        version for version in range(min(found, default=1), max(found, default=0)) if version not in found
    ]
    if missing:
        raise Problem(
            f"--policy: policy {missing[0]} may have been in force and the database has lost it: give its file"
        )
    return {version: policy for version, policy in sorted(found.items()) if stream in policy.streams}


def _closed(db: Connection, stream: str, policies: Iterable[Policy]) -> list[Row[Any]]:
    """How far the sequences of windows of these policies are closed."""
    names = {
        (name, scope)
        for policy in policies
        for name, window in policy.streams[stream].windows.items()
        for scope in window.scopes
    }
    rows = db.execute(select(store.closed).where(store.closed.c.stream == stream)).all()
    return [row for row in rows if (row.window, row.scope) in names]


def _nano(tilt: float) -> int:
    return math.ceil(tilt * NANO)


def differences(found: LostStretch, signed: LostStretch) -> Mapping[str, str]:
    """By field, why a signed stretch does not charge what must be charged; empty if it does."""
    wrong = {}
    for name in ("entries", "head"):
        if getattr(found, name) != getattr(signed, name):
            wrong[name] = "the mark is another one now"
    for name in ("after", "after_head"):
        if getattr(found, name) != getattr(signed, name):
            wrong[name] = "the ledger is another one now"
    if signed.first > found.first:
        wrong["first"] = f"{signed.first} is after {found.first}"
    for name in ("public", "operator", "settings"):
        if getattr(signed, name) < getattr(found, name):
            wrong[name] = f"{getattr(signed, name)} is below {getattr(found, name)}"
    if not set(signed.policies) >= set(found.policies):
        wrong["policies"] = "another policy was followed since"
    return wrong
