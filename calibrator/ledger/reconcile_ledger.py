"""Charge what a restored ledger has lost, as ops signed it, so that its streams go on and no budget is given back.

In one transaction: an entry for each audience over the lost stretch, all windows up to its end closed without a result,
all evidence dropped, and a new epoch after it. So no window is released twice with other noise, no statistics are drawn
twice, and the ticks of the stretch state their worst case while later ones keep ε beside it
(docs/theory-accounts.md, A11).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Literal

from sqlalchemy import Connection, insert, select, update

from hushmq.broker.contract.account_share import priced_streams
from hushmq.broker.contract.messages import decode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem, Reason, Rejected
from hushmq.broker.contract.reconciliation import LostStretch, Reconciliation
from hushmq.broker.contract.signature import PublicKey, Signed, verify
from hushmq.calibrator.learning.learn_window import forget_stream
from hushmq.calibrator.learning.stream_theta import theta_of_stream
from hushmq.calibrator.ledger.begin_epoch import begin_epochs
from hushmq.calibrator.ledger.begun_epoch import BegunEpoch, accounts_now, begun_epoch
from hushmq.calibrator.ledger.debits import UNPERTURBED
from hushmq.calibrator.ledger.high_water_mark import HighWaterMark, append_entry, contradiction
from hushmq.calibrator.ledger.joined_account import hull
from hushmq.calibrator.ledger.lost_entries import differences, lost_stretch, policies_meanwhile
from hushmq.calibrator.ledger.quiet_tick import first_quiet_tick
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.store import tables as store
from hushmq.pufferfish.protocols import Theta

WHY = "reconciled"


def unreached(
    db: Connection, marks: Mapping[str, HighWaterMark], ops_keys: Iterable[PublicKey]
) -> dict[str, HighWaterMark]:
    """The marks that their streams' ledgers do not reach."""
    keys = tuple(ops_keys)
    return {
        stream: mark for stream, mark in marks.items() if contradiction(db, stream, mark, keys) is not None
    }


def reconcile(
    db: Connection,
    payload: bytes,
    *,
    cohort: str,
    policy: Policy,
    marks: Mapping[str, HighWaterMark],
    ops_keys: Iterable[PublicKey],
    now: float,
    given: Iterable[Policy] = (),
) -> list[BegunEpoch]:
    """Charge what ops signed, and return the epochs that begin after it.

    Problem, with nothing changed, unless a trusted key signed it for these marks and this ledger, and it charges what
    must be charged at least. `marks` are those that the ledgers do not reach, `policy` is the one followed.
    """
    keys, lost_policies = tuple(ops_keys), tuple(given)
    try:
        message = verify(Reconciliation, payload, keys)
    except Rejected as rejected:
        raise Problem(f"--statement: {rejected}") from None
    if message.cohort != cohort:
        raise Problem(f"--statement: it is for the cohort {message.cohort}, this is {cohort}")
    charged: dict[str, LostStretch] = {}
    for stream, lost in message.streams.items():
        if stream not in marks:
            raise Problem(f"--statement: {stream}: its ledger reaches its mark: nothing is to be charged")
        if stream not in policy.streams:
            raise Problem(f"--statement: {stream}: the policy followed has no such stream")
        found = lost_stretch(db, stream, marks[stream], now=now, given=lost_policies, settings=lost.settings)
        for name, why in differences(found, lost).items():
            raise Problem(
                f"--statement: {stream}: {name}: {why}: make a new one with hushmq ledger reconcile"
            )
        if lost.last > found.last:
            raise Problem(f"--statement: {stream}: last: tick {lost.last} has not come yet")
        charged[stream] = lost.model_copy(update={"last": found.last})  # also what came since it was made
    for stream, lost in charged.items():
        _charge(db, stream, lost, payload)
    begun: list[BegunEpoch] = []
    for members in dict.fromkeys(one.members for one in priced_streams(policy).values()):
        mine = {name: charged[name] for name in members if name in charged}
        if mine:
            begun += _go_on(db, members, policy, mine, lost_policies)
    return begun


def _charge(db: Connection, stream: str, lost: LostStretch, payload: bytes) -> None:
    """Write the entries of both audiences, the signed statement, and that no window up to the end is open."""
    tilts: dict[Literal["public", "operator"], int] = {"public": lost.public, "operator": lost.operator}
    entries = [
        append_entry(
            db,
            {
                "stream": stream,
                "window": "",
                "scope": "",
                "audience": audience,
                "first": lost.first,
                "last": lost.last,
                "tilt": tilt,
                "noise": UNPERTURBED,
                "noise_digest": statement_digest(payload),
                "why": WHY,
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
            },
        )
        for audience, tilt in tilts.items()
    ]
    db.execute(
        insert(store.reconciled).values(
            entry=entries[0],
            stream=stream,
            after=lost.after,
            entries=max(lost.entries, lost.after),
            payload=payload,
        )
    )
    mine = (store.closed.c.stream == stream) & (store.closed.c.scope != store.DEVICES)
    db.execute(update(store.closed).where(mine, store.closed.c.through < lost.last).values(through=lost.last))


def _go_on(
    db: Connection,
    members: tuple[str, ...],
    policy: Policy,
    lost: Mapping[str, LostStretch],
    given: Iterable[Policy],
) -> list[BegunEpoch]:
    """Drop what was learned, and begin the next epoch of all streams of an account after the lost stretches."""
    thetas: list[Theta] = [theta_of_stream(db, name, policy.streams[name]) for name in members]
    for name in lost:
        for one in policies_meanwhile(db, name, given).values():
            own = one.streams[name]
            model = model_of(own)
            start: Theta = model.start(own).hull(model.floor(own))
            thetas.append(start)
        _begin_sequences(db, name, policy, through=lost[name].last)
        forget_stream(db, name)
    first = 1 + max(one.last for one in lost.values())
    epochs = begin_epochs(
        db,
        members,
        policy,
        first=first_quiet_tick(accounts_now(db, members[0], policy), first),
        reasons=dict.fromkeys(members, "restored"),
        ended_theta=hull(thetas),
        settings={name: one.settings for name, one in lost.items()},
    )
    return [begun_epoch(db, name, policy, epoch) for name, epoch in epochs.items()]


def _begin_sequences(db: Connection, stream: str, policy: Policy, *, through: int) -> None:
    """Let sequences of windows that an old database has not begun go on after the stretch too."""
    begun = {
        (row.window, row.scope)
        for row in db.execute(select(store.closed).where(store.closed.c.stream == stream))
    }
    for name, window in policy.streams[stream].windows.items():
        for scope in window.scopes:
            if (name, scope) not in begun:
                values = {"stream": stream, "window": name, "scope": scope, "through": through}
                db.execute(insert(store.closed).values(**values))


def signed_stretch(payload: bytes, stream: str, ops_keys: Iterable[PublicKey] | None) -> LostStretch:
    """What a statement says of a stream; Rejected unless one of the keys signed it, where there are keys to ask."""
    if ops_keys is None:
        message = decode(Signed[Reconciliation], payload).message
    else:
        message = verify(Reconciliation, payload, ops_keys)
    if stream not in message.streams:
        raise Rejected(Reason.MALFORMED, f"the statement does not name {stream}")
    return message.streams[stream]


def statement_digest(payload: bytes) -> str:
    """What a ledger entry keeps of a signed statement."""
    return blake2b(payload, digest_size=16).hexdigest()
