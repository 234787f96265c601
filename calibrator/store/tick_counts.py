"""How many ticks were counted, and how many of them came too late for their window."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, func, select

from hushmq.calibrator.store.tables import tally


def counted_ticks(db: Connection) -> Mapping[tuple[str, str], int]:
    """Ticks counted so far, by device and stream."""
    return {(row.device, row.stream): row.counted for row in db.execute(select(tally))}


def late_ticks(db: Connection, stream: str) -> int:
    """Ticks of a stream that came after their window had closed."""
    return int(
        db.execute(
            select(func.coalesce(func.sum(tally.c.late), 0)).where(tally.c.stream == stream)
        ).scalar_one()
    )
