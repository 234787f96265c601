"""Verify the console's log: its own chain, and that every head of the ledger in it lies on the ledger's chain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from hushmq.calibrator.ledger.high_water_mark import HighWaterMark, contradiction
from hushmq.console.activity.activity_log import FIRST_DIGEST, entry_digest, read_log


@dataclass(frozen=True, slots=True)
class LogCheck:
    """One thing that was recomputed."""

    name: str
    passed: bool
    detail: str


def verify_log(path: Path, db: Connection | None) -> Iterator[LogCheck]:
    """Recompute the chain, and compare the log with the ledger if there is one."""
    before, count, newest = FIRST_DIGEST, 0, dict[str, tuple[int, str]]()
    wrong: str | None = None
    for number, entry in enumerate(read_log(path), start=1):
        if entry.number != number or entry.digest != entry_digest(before, entry):
            wrong = f"line {number} was changed, removed or moved"
            break
        before, count = entry.digest, number
        newest |= entry.ledger
    yield LogCheck("log as it was written", wrong is None, wrong or f"{count} entries, head {before[:12]}")
    if db is None or wrong is not None:
        return
    for stream, (entries, head) in sorted(newest.items()):
        why = contradiction(db, stream, HighWaterMark(entries, head))
        words = f"{entries} entries were seen, head {head[:12]}"
        yield LogCheck(f"ledger of {stream} reaches what the log saw", why is None, why or words)
