"""The accounts on disk after all processes have stopped: the devices' outboxes and the calibrator's database."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import open_store, sqlite_url
from hushmq.calibrator.store.tick_counts import counted_ticks
from hushmq.demo.demo_plan import STREAM, DemoPlan, database

Run = tuple[int, int]


@dataclass(frozen=True, slots=True)
class DeviceAccount:
    """One device's ticks: sampled = counted + waiting + dropped."""

    sampled: int
    counted: int
    waiting: int
    """In the outbox and not counted; a counted batch whose acknowledgement is still missing is not waiting."""
    dropped: int

    @property
    def balanced(self) -> bool:
        return self.counted > 0 and self.sampled == self.counted + self.waiting + self.dropped


@dataclass(frozen=True, slots=True)
class DiskAccounts:
    """The ticks of every device by their fate, and the numbers of the ledger's entries."""

    devices: Mapping[str, DeviceAccount]
    entries: frozenset[int]


def read(plan: DemoPlan, folder: Path) -> DiskAccounts:
    """Reads the accounts of a finished demo."""
    engine = open_store(sqlite_url(database(folder)))
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
            devices[wearable.name] = DeviceAccount(
                sampled=sampled,
                counted=counted.get((wearable.name, STREAM), 0),
                waiting=sum(_ticks_outside(batch, runs.get(wearable.name, [])) for batch in batches),
                dropped=dropped,
            )
    return DiskAccounts(devices, entries)


def _outbox(path: Path) -> tuple[int, int, list[Run]]:
    db = sqlite3.connect(path)
    try:
        row = db.execute("SELECT sampled, dropped FROM stream WHERE name = ?", (STREAM,)).fetchone()
        batches = db.execute("SELECT first, last FROM batch WHERE stream = ?", (STREAM,)).fetchall()
    finally:
        db.close()
    return (*row, batches) if row else (0, 0, [])


def _ticks_outside(batch: Run, runs: Sequence[Run]) -> int:
    """The number of ticks of a batch that lie in none of the runs."""
    inside = sum(max(0, min(batch[1], last) - max(batch[0], first) + 1) for first, last in runs)
    return batch[1] - batch[0] + 1 - inside
