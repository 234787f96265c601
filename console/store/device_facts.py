"""What the database knows about devices beside their status: quarantine, the roster, what was counted of them.

For operators only: what arrived, and when, is no part of what the public may know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, func, select

from hushmq.calibrator.store import tables as store


@dataclass(slots=True)
class DeviceFacts:
    """One device in the database."""

    quarantine: str | None = None
    """The reason, while it is in quarantine."""
    until: float = 0.0
    """When the quarantine ends, in seconds since the epoch."""
    left_out: dict[str, str] = field(default_factory=dict)
    """By stream, why no window counts it any more."""
    counted_to: dict[str, int] = field(default_factory=dict)
    """By stream, the last tick that is counted or known to be a gap."""
    counted: int = 0
    late: int = 0
    """Ticks over all streams."""


_LEFT_OUT = select(store.roster.c.device, store.roster.c.stream, store.roster.c.left_out).where(
    store.roster.c.left_out.is_not(None)
)


def read_decisions(db: Connection, now: float) -> Mapping[str, dict[str, str]]:
    """By device, what the calibrator decided about it: `quarantine`, or a stream it is left out of, and why."""
    found: dict[str, dict[str, str]] = {}
    for row in db.execute(select(store.quarantine).where(store.quarantine.c.until > now)):
        found.setdefault(row.device, {})["quarantine"] = row.reason
    for row in db.execute(_LEFT_OUT):
        found.setdefault(row.device, {})[row.stream] = row.left_out
    return found


def read_device_facts(db: Connection, now: float) -> Mapping[str, DeviceFacts]:
    """All devices that the database knows."""
    found: dict[str, DeviceFacts] = {}

    def of(device: str) -> DeviceFacts:
        return found.setdefault(device, DeviceFacts())

    for row in db.execute(select(store.quarantine).where(store.quarantine.c.until > now)):
        one = of(row.device)
        one.quarantine, one.until = row.reason, row.until
    for row in db.execute(_LEFT_OUT):
        of(row.device).left_out[row.stream] = row.left_out
    last = func.max(store.accounted.c.last).label("counted_to")
    keys = store.accounted.c.device, store.accounted.c.stream
    for row in db.execute(select(*keys, last).group_by(*keys)):
        of(row.device).counted_to[row.stream] = row.counted_to
    for row in db.execute(select(store.tally)):
        one = of(row.device)
        one.counted += row.counted
        one.late += row.late
    return found


def read_closed(db: Connection) -> Mapping[tuple[str, str, str], int]:
    """By stream, window and scope, the last tick through which windows are closed."""
    rows = db.execute(select(store.closed))
    return {(row.stream, row.window, row.scope): row.through for row in rows}
