"""Begin an epoch of a stream, within the transaction that gives the reason for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection, func, insert, select

from hushmq.broker.contract.messages import EpochReason
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.calibrator.ledger.epochs import AUDIENCE, Epoch, is_written, read_epochs, seal
from hushmq.calibrator.ledger.high_water_mark import append_entry
from hushmq.calibrator.store.tables import epoch, ledger, setting
from hushmq.pufferfish.protocols import Theta


def write_first(db: Connection, stream: str, policy: StreamPolicy, *, version: int) -> None:
    """Write down the first epoch of a stream, unless that is done."""
    if not is_written(db, stream):
        row = _row(stream, Epoch(1, 0, "first", version, policy.epoch, policy.meaning, 0), None)
        db.execute(insert(epoch).values(**row, entry=None))


def begin_epochs(
    db: Connection,
    streams: Sequence[str],
    policy: Policy,
    *,
    first: int,
    reasons: Mapping[str, EpochReason],
    ended_theta: Theta,
    settings: Mapping[str, int] | None = None,
) -> dict[str, Epoch]:
    """Begin an epoch of every stream of an account, all at the same tick, which is not before `first`.

    `settings` are the highest versions of settings issued before it, where they are above those that are stored.
    """
    for name in streams:
        write_first(db, name, policy.streams[name], version=policy.version)
    first = max([first, *(1 + last for name in streams if (last := _last_released(db, name)) is not None)])
    return {
        name: begin_epoch(
            db,
            name,
            policy.streams[name],
            version=policy.version,
            first=first,
            reason=reasons[name],
            ended_theta=ended_theta,
            settings=(settings or {}).get(name, 0),
        )
        for name in streams
    }


def _last_released(db: Connection, stream: str) -> int | None:
    """The last tick that a released window of the stream covers."""
    mine = (ledger.c.stream == stream) & (ledger.c.audience == "public")
    last: int | None = db.execute(select(func.max(ledger.c.last)).where(mine)).scalar()
    return last


def begin_epoch(
    db: Connection,
    stream: str,
    policy: StreamPolicy,
    *,
    version: int,
    first: int,
    reason: EpochReason,
    ended_theta: Theta,
    settings: int = 0,
) -> Epoch:
    """End the current epoch, which is priced under `ended_theta` from now on, and begin the next.

    It begins at tick `first`, or after the last tick that a released window covers: none is over two epochs.
    """
    before = read_epochs(db, stream).current
    released = _last_released(db, stream)
    issued = db.execute(select(func.max(setting.c.version)).where(setting.c.stream == stream)).scalar()
    begun = Epoch(
        before.number + 1,
        max(first, before.first, 0 if released is None else released + 1),
        reason,
        version,
        policy.epoch,
        policy.meaning,
        max(issued or 0, settings),
    )
    row = _row(stream, begun, ended_theta)
    last = db.execute(select(epoch).where(epoch.c.stream == stream, epoch.c.number == before.number)).one()
    fields = {
        "stream": stream,
        "window": "",
        "scope": "",
        "audience": AUDIENCE,
        "first": begun.first,
        "last": begun.first,
        "tilt": 0,
        "noise": 0,
        "noise_digest": seal(last._asdict(), row),
        "why": f"epoch {begun.number}: {reason}",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    db.execute(insert(epoch).values(**row, entry=append_entry(db, fields)))
    return begun


def _row(stream: str, one: Epoch, ended_theta: Theta | None) -> dict[str, str | int | None]:
    return {
        "stream": stream,
        "number": one.number,
        "first": one.first,
        "reason": one.reason,
        "policy": one.policy,
        "ops": one.ops,
        "meaning": one.meaning,
        "settings": one.settings,
        "ended_theta": None if ended_theta is None else json.dumps(ended_theta.as_tree()),
    }
