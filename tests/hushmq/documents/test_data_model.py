"""The data model describes every table and column there is, and no other."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from hushmq.agent.storage.outbox import Outbox
from hushmq.calibrator.store.tables import metadata

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/data-model.md").read_text(encoding="utf-8")
CALIBRATOR, DEVICE = TEXT.split("## The device's database")


def described(text: str) -> dict[str, set[str]]:
    """The columns of each table in the document's tables: those of the key, and the others."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| .* \| (.*?) \|$", text, re.MULTILINE)
    return {table: set(re.findall(r"`(\w+)`", key + columns)) for table, key, columns in rows}


def test_the_calibrators_tables() -> None:
    """As calibrator/store/tables.py has them; numbered columns stand as the first of them."""
    there = {
        name: {column.name for column in table.c if not re.search(r"_[1-9]\d*$", column.name)}
        for name, table in metadata.tables.items()
    }
    assert described(CALIBRATOR) == there


def test_the_devices_tables(tmp_path: Path) -> None:
    """As a new outbox has them."""
    Outbox(tmp_path, max_bytes=10**6, max_age_s=60).close()
    with sqlite3.connect(tmp_path / "outbox.db") as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        there = {
            name: {row[1] for row in db.execute(f"PRAGMA table_info({name})")}
            for name in names
            if not name.startswith("sqlite_")
        }
    assert described(DEVICE) == there
