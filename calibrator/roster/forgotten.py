"""Forgetting a device: its rows go, what was charged for it and what prices that stays.

Kept are the ledger, the releases it paid for, every setting that was issued to the device, what was learned of its
chain and what it may have lost while it was left out: without them the past could not be priced. Of the ticks that it
has used one run for each stream is kept, without holes, so that no tick counts twice should the name come back. A
device with such a run and without totals is forgotten; its next batch ends that.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, Table, delete, func, insert, select

from hushmq.broker.contract.topics import Topics
from hushmq.calibrator.store.tables import (
    accounted,
    batch,
    collected,
    filled,
    pending,
    quarantine,
    release,
    roster,
    setting,
    statistic,
    tally,
)

ROWS: tuple[Table, ...] = (batch, filled, collected, pending, statistic, tally, quarantine)
"""Tables of which every row of the device goes."""


def forget_device(db: Connection, device: str) -> int:
    """Delete the rows of a device, and return how many there were; 0 where nothing is known of it."""
    members = (roster.c.device == device) & roster.c.left_out.is_(None)
    gone = sum(db.execute(delete(table).where(table.c.device == device)).rowcount for table in ROWS)
    gone += db.execute(delete(roster).where(members)).rowcount
    mine = accounted.c.device == device
    used = db.execute(
        select(accounted.c.stream, func.min(accounted.c.first), func.max(accounted.c.last))
        .where(mine)
        .group_by(accounted.c.stream)
    ).all()
    gone += db.execute(delete(accounted).where(mine)).rowcount - len(used)
    for stream, first, last in used:
        db.execute(insert(accounted).values(device=device, stream=stream, first=first, last=last))
    return gone


def forgotten_devices(db: Connection) -> frozenset[str]:
    """The devices that were forgotten and have sent nothing since."""
    known = select(tally.c.device)
    rows = db.execute(select(accounted.c.device).where(accounted.c.device.not_in(known)).distinct())
    return frozenset(rows.scalars())


def topics_of(db: Connection, device: str, topics: Topics, windows: Iterable[tuple[str, str]]) -> list[str]:
    """The retained topics that are about one device, but its status, which is not the calibrator's.

    `windows` are the streams and windows of the policy.
    """
    streams = db.execute(select(setting.c.stream).where(setting.c.device == device).distinct()).scalars()
    ends = f"/{device}"
    released = db.execute(select(release.c.topic).where(release.c.topic.endswith(ends, autoescape=True)))
    return sorted(
        {
            topics.seen(device),
            *(topics.noise(stream, device) for stream in streams),
            *(topics.release(stream, window, device) for stream, window in windows),
            *released.scalars(),
        }
    )
