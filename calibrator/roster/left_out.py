"""Devices that are left out: their charged statistics contradict Θ, and no window that closes later counts them.

Who is left out is a function of charged statistics alone (docs/theory-world.md, Theorem 14). Only ops take a device
back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from hushmq.calibrator.store.tables import roster
from hushmq.pufferfish.protocols import Region

OUTSIDE = "its statistics contradict Θ"

_LEFT_OUT = select(roster.c.device, roster.c.left_out, roster.c.until, roster.c.region).where(
    roster.c.stream == bindparam("stream_"), roster.c.left_out.is_not(None)
)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Why a device is left out, from which tick on, and what its charged statistics said of its chain."""

    reason: str
    since: int
    region: Mapping[str, Any] | None


def left_out(db: Connection, stream: str) -> dict[str, LeftOut]:
    """The devices that are left out of a stream."""
    rows = db.execute(_LEFT_OUT, {"stream_": stream})
    return {
        row.device: LeftOut(row.left_out, row.until, None if row.region is None else json.loads(row.region))
        for row in sorted(rows, key=lambda row: (row.device, row.until))
    }


def left_out_of_all(db: Connection, streams: Iterable[str]) -> frozenset[str]:
    """The devices that are left out of every one of these streams: what they publish is in no window of any."""
    return frozenset.intersection(*(frozenset(left_out(db, stream)) for stream in streams))


def leave_out(
    db: Connection, stream: str, devices: Mapping[str, Region], *, since: int, reason: str = OUTSIDE
) -> None:
    """Leave devices out of every window that closes from now on; `devices` with the regions that hold their chains."""
    for device, region in devices.items():
        mine = (roster.c.stream == stream) & (roster.c.device == device)
        values = {"left_out": reason, "until": since, "region": json.dumps(region.as_tree())}
        if db.execute(update(roster).where(mine).values(**values)).rowcount == 0:
            db.execute(insert(roster).values(stream=stream, device=device, since=since, admitted=0, **values))


def readmit(db: Connection, stream: str, device: str) -> bool:
    """Let a device that is left out be admitted again, with its next batch; False if it is not left out."""
    mine = (roster.c.stream == stream) & (roster.c.device == device) & roster.c.left_out.is_not(None)
    return db.execute(delete(roster).where(mine)).rowcount > 0
