"""What `seen` says of each device: the ticks that are durably counted, and the holes between them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, select

from hushmq.broker.contract.messages import Counted, Seen
from hushmq.broker.contract.tick_runs import TickRuns
from hushmq.calibrator.store.tables import accounted

MOST_HOLES = 512
"""Holes that `seen` lists for a stream. With more, it covers only the ticks before the next one."""


def seen(db: Connection, device: str) -> Seen:
    """What is durably counted of a device, per stream."""
    return seen_of(db, [device])[device]


def seen_of(db: Connection, devices: Iterable[str]) -> dict[str, Seen]:
    """What is durably counted of each of these devices, per stream."""
    wanted = sorted(set(devices))
    runs: dict[str, dict[str, TickRuns]] = {device: {} for device in wanted}
    rows = db.execute(
        select(accounted)
        .where(accounted.c.device.in_(wanted))
        .order_by(accounted.c.device, accounted.c.stream, accounted.c.first)
    )
    for device, stream, first, last in rows:
        runs[device].setdefault(stream, TickRuns()).add(first, last)
    return {
        device: Seen(streams={stream: _counted(covered) for stream, covered in streams.items()})
        for device, streams in runs.items()
    }


def _counted(runs: TickRuns) -> Counted:
    """What `seen` says of the accounted runs of a stream, of which there is at least one."""
    # Ticks below the first run were never declared: the device has no batch of them, or will declare them when it
    # arrives. Either way they are a hole from tick 0.
    highest = runs.last or 0
    holes = runs.missing(0, highest)
    if len(holes) > MOST_HOLES:
        highest = holes[MOST_HOLES][0] - 1
    return Counted(highest=highest, holes=tuple(holes[:MOST_HOLES]))
