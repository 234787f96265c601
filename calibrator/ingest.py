"""Count each (device, stream, tick) once, durably, and say what has been counted.

A batch covers the ticks first … last, and through `after` it declares the gap before it. Whatever part of it is
not yet accounted for is counted; the rest has been counted before and is ignored. So identical bytes may come
any number of times, in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from sqlalchemy import Connection, and_, delete, func, insert, select, update

from broker.messages import Batch, Counted, Seen
from broker.packing import unpack
from broker.problem import Reason, Rejected
from calibrator.store import accounted, batch, closed, extent, setting, tally


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch, who sent it and on which stream."""

    device: str
    stream: str
    batch: Batch


def count(db: Connection, arrival: Arrival, *, latest: int) -> int:
    """Count what is new in a batch and return how many ticks that was, or raise Rejected.

    `latest` is the highest tick that can be real by now.
    """
    message = arrival.batch
    if message.last > latest:
        raise Rejected(
            Reason.FUTURE_TICK, f"tick {message.last} is in the future: {latest} is the latest possible"
        )
    known = db.execute(
        select(setting.c.version).where(
            setting.c.stream == arrival.stream, setting.c.version == message.noise
        )
    ).first()
    if known is None:
        raise Rejected(
            Reason.POLICY_MISMATCH, f"noise version {message.noise} was never issued for {arrival.stream}"
        )
    states = unpack(message.states, message.count, message.bits)

    fresh = _account(db, arrival, message.first, message.last)
    late = 0
    for first, last in fresh:
        piece = states[first - message.first : last - message.first + 1]
        db.execute(
            insert(batch).values(
                device=arrival.device,
                stream=arrival.stream,
                first=first,
                last=last,
                noise=message.noise,
                states=piece,
            )
        )
        late += _late_ticks(db, arrival.stream, first, last)
    if message.after is not None and message.after + 1 < message.first:
        _account(db, arrival, message.after + 1, message.first - 1)
    counted = sum(last - first + 1 for first, last in fresh)
    if counted:
        _add_to_tally(db, arrival, counted=counted, late=late)
        _stretch_extent(db, arrival.stream, message.noise, fresh[0][0], fresh[-1][1])
    return counted


def seen(db: Connection, device: str) -> Seen:
    """What is durably counted of a device, per stream."""
    runs: dict[str, list[tuple[int, int]]] = {}
    rows = db.execute(
        select(accounted.c.stream, accounted.c.first, accounted.c.last)
        .where(accounted.c.device == device)
        .order_by(accounted.c.stream, accounted.c.first)
    )
    for stream, first, last in rows:
        runs.setdefault(stream, []).append((first, last))
    return Seen(streams={stream: _counted(covered) for stream, covered in runs.items()})


def counted_ticks(db: Connection) -> Mapping[tuple[str, str], int]:
    """Ticks counted so far, by device and stream."""
    return {(row.device, row.stream): row.counted for row in db.execute(select(tally))}


def _counted(runs: list[tuple[int, int]]) -> Counted:
    # Ticks below the first run were never declared: the device has made nothing there that it still holds,
    # or it will declare it when that batch arrives. Both look like a hole from tick 0.
    holes = [(0, runs[0][0] - 1)] if runs[0][0] > 0 else []
    holes += [(left[1] + 1, right[0] - 1) for left, right in pairwise(runs)]
    return Counted(highest=runs[-1][1], holes=tuple(holes[-4096:]))


def _account(db: Connection, arrival: Arrival, first: int, last: int) -> list[tuple[int, int]]:
    """Mark first … last as accounted for; return the parts that were not yet."""
    mine = and_(accounted.c.device == arrival.device, accounted.c.stream == arrival.stream)
    touching = db.execute(
        select(accounted.c.first, accounted.c.last)
        .where(mine, accounted.c.first <= last + 1, accounted.c.last >= first - 1)
        .order_by(accounted.c.first)
    ).all()
    fresh = []
    cursor = first
    for row in touching:
        if cursor < row.first:
            fresh.append((cursor, min(row.first - 1, last)))
        cursor = max(cursor, row.last + 1)
    if cursor <= last:
        fresh.append((cursor, last))
    if fresh:
        for row in touching:
            db.execute(delete(accounted).where(mine, accounted.c.first == row.first))
        merged = (
            min([first, *(row.first for row in touching)]),
            max([last, *(row.last for row in touching)]),
        )
        db.execute(
            insert(accounted).values(
                device=arrival.device, stream=arrival.stream, first=merged[0], last=merged[1]
            )
        )
    return fresh


def _late_ticks(db: Connection, stream: str, first: int, last: int) -> int:
    """How many of these ticks lie in a window that has closed already (any window of the stream)."""
    through = db.execute(select(func.max(closed.c.through)).where(closed.c.stream == stream)).scalar()
    return 0 if through is None else max(0, min(last, through) - first + 1)


def _add_to_tally(db: Connection, arrival: Arrival, *, counted: int, late: int) -> None:
    mine = and_(tally.c.device == arrival.device, tally.c.stream == arrival.stream)
    changed = db.execute(
        update(tally).where(mine).values(counted=tally.c.counted + counted, late=tally.c.late + late)
    )
    if changed.rowcount == 0:
        db.execute(
            insert(tally).values(device=arrival.device, stream=arrival.stream, counted=counted, late=late)
        )


def _stretch_extent(db: Connection, stream: str, noise: int, first: int, last: int) -> None:
    mine = and_(extent.c.stream == stream, extent.c.noise == noise)
    row = db.execute(select(extent.c.first, extent.c.last).where(mine)).first()
    if row is None:
        db.execute(insert(extent).values(stream=stream, noise=noise, first=first, last=last))
    elif first < row.first or last > row.last:
        db.execute(update(extent).where(mine).values(first=min(first, row.first), last=max(last, row.last)))
