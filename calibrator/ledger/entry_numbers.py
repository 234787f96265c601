"""The numbers of a stream's entries, by which a high-water mark names them.

They count up from 1. After a reconciliation they go on above the highest number that was lost: so a number never stands
for a lost entry and for one that was written in its place, and every mark tells which of them it is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select

from hushmq.calibrator.store.tables import ledger, reconciled

_COUNT = select(func.count()).select_from(ledger).where(ledger.c.stream == bindparam("stream"))
_SKIPS = select(reconciled).where(reconciled.c.stream == bindparam("stream")).order_by(reconciled.c.entry)


@dataclass(frozen=True, slots=True)
class SkippedNumbers:
    """Numbers above `after` up to `entries`, which no entry has: ops signed `payload` for what was lost with them."""

    entry: int
    """The first entry after them, by its id."""
    after: int
    entries: int
    payload: bytes


def skipped_numbers(db: Connection, stream: str) -> list[SkippedNumbers]:
    """All numbers of the stream that were skipped, in order."""
    return [
        SkippedNumbers(row.entry, row.after, row.entries, row.payload)
        for row in db.execute(_SKIPS, {"stream": stream})
    ]


def last_number(db: Connection, stream: str) -> int:
    """The number of the stream's last entry; 0 before the first."""
    count: int = db.execute(_COUNT, {"stream": stream}).scalar_one()
    return count + sum(one.entries - one.after for one in skipped_numbers(db, stream))


def place_of(number: int, skipped: Sequence[SkippedNumbers]) -> int | None:
    """Which of the entries that are there has the number, counted from 0; None if it was skipped."""
    place = number - 1
    for one in skipped:
        if number > one.entries:
            place -= one.entries - one.after
        elif number > one.after:
            return None
    return place
