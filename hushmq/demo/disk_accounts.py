"""What both sides have on disk after everything has stopped: the devices' outboxes and the calibrator's database."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from hushmq.calibrator.ingest.count_batches import counted_ticks
from hushmq.calibrator.store import tables as store
from hushmq.demo.demo_plan import STREAM, Plan, database

Run = tuple[int, int]


@dataclass(frozen=True, slots=True)
class DeviceBook:
    """One device's ticks: sampled = counted + waiting + dropped."""

    sampled: int
    counted: int
    waiting: int
    """Still in the outbox and not counted: a batch that was counted after the agent's last look is no longer owed."""
    dropped: int

    @property
    def balanced(self) -> bool:
        return self.counted > 0 and self.sampled == self.counted + self.waiting + self.dropped


@dataclass(frozen=True, slots=True)
class Books:
    """All devices' books, and the numbers of the ledger's entries."""

    devices: Mapping[str, DeviceBook]
    entries: frozenset[int]


def read(plan: Plan, folder: Path) -> Books:
    """The books of a demo that has ended."""
    engine = store.open_store(store.sqlite_url(database(folder)))
    with engine.begin() as db:
        counted = counted_ticks(db)
        entries = frozenset(db.execute(select(store.ledger.c.id)).scalars())
        runs: dict[str, list[Run]] = {}
        for row in db.execute(select(store.accounted).where(store.accounted.c.stream == STREAM)):
            runs.setdefault(row.device, []).append((row.first, row.last))
    engine.dispose()
    devices = {}
    for wearable in plan.wearables:
        outbox = folder / wearable.name / "outbox.db"
        if outbox.exists():
            sampled, dropped, batches = _outbox(outbox)
            devices[wearable.name] = DeviceBook(
                sampled=sampled,
                counted=counted.get((wearable.name, STREAM), 0),
                waiting=sum(_outside(batch, runs.get(wearable.name, [])) for batch in batches),
                dropped=dropped,
            )
    return Books(devices, entries)


def _outbox(path: Path) -> tuple[int, int, list[Run]]:
    db = sqlite3.connect(path)
    try:
        row = db.execute("SELECT sampled, dropped FROM stream WHERE name = ?", (STREAM,)).fetchone()
        batches = db.execute("SELECT first, last FROM batch WHERE stream = ?", (STREAM,)).fetchall()
    finally:
        db.close()
    return (*row, batches) if row else (0, 0, [])


def _outside(batch: Run, runs: Sequence[Run]) -> int:
    """How many ticks of a batch lie in none of the runs."""
    inside = sum(max(0, min(batch[1], last) - max(batch[0], first) + 1) for first, last in runs)
    return batch[1] - batch[0] + 1 - inside
