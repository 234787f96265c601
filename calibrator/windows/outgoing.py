"""What is stored and waits to be published: releases with a ledger entry, and sums of what devices released.

Stored bytes are published until the broker has acknowledged them, and never made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, func, select, update

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.topics import COHORT, Topics
from hushmq.calibrator.store.tables import aggregate, release


@dataclass(frozen=True, slots=True)
class OutgoingRelease:
    """A release that was charged as a ledger entry."""

    entry: int
    topic: str
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class OutgoingAggregate:
    """A sum of releases that devices made: it has a number, and no ledger entry."""

    number: int
    topic: str
    payload: bytes = field(repr=False)


Outgoing = OutgoingRelease | OutgoingAggregate


def unsent(db: Connection) -> list[Outgoing]:
    """What the broker has not acknowledged, oldest first."""
    releases = db.execute(
        select(release).where(release.c.sent.is_(False)).order_by(release.c.entry, release.c.topic)
    )
    sums = db.execute(select(aggregate).where(aggregate.c.sent.is_(False)).order_by(aggregate.c.id))
    return [
        *(OutgoingRelease(row.entry, row.topic, row.payload) for row in releases),
        *(OutgoingAggregate(row.id, row.topic, row.payload) for row in sums),
    ]


def newest_sent(db: Connection, streams: Mapping[str, StreamPolicy], topics: Topics) -> dict[str, bytes]:
    """By topic, the newest bytes that the broker has acknowledged, of the windows that the policy has.

    A broker that comes back older retains older ones.
    """
    newest = (
        select(release.c.topic, func.max(release.c.entry).label("entry"))
        .where(release.c.sent.is_(True))
        .group_by(release.c.topic)
        .subquery()
    )
    rows = [
        *db.execute(
            select(release.c.topic, release.c.payload).join(
                newest, (release.c.topic == newest.c.topic) & (release.c.entry == newest.c.entry)
            )
        ),
        *db.execute(select(aggregate.c.topic, aggregate.c.payload).where(aggregate.c.sent.is_(True))),
    ]
    windows = {
        topics.release(stream, window, COHORT).removesuffix(COHORT)
        for stream, policy in streams.items()
        for window in (*policy.windows, *policy.device_windows)
    }
    return {topic: payload for topic, payload in rows if f"{topic.rsplit('/', 1)[0]}/" in windows}


def mark_sent(db: Connection, acknowledged: Iterable[Outgoing]) -> None:
    """Record what the broker has acknowledged."""
    for one in acknowledged:
        match one:
            case OutgoingRelease(entry, topic):
                mine = (release.c.entry == entry) & (release.c.topic == topic)
                db.execute(update(release).where(mine).values(sent=True))
            case OutgoingAggregate(number):
                _mark_aggregate_sent(db, number)


def _mark_aggregate_sent(db: Connection, number: int) -> None:
    """Only the newest sum is kept once it is sent, so that numbers rise for ever."""
    db.execute(update(aggregate).where(aggregate.c.id == number).values(sent=True))
    newest = db.execute(select(func.max(aggregate.c.id))).scalar()
    db.execute(delete(aggregate).where(aggregate.c.sent.is_(True), aggregate.c.id != newest))
