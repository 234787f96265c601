"""The versions of the outbox's tables: numbered steps in plain SQL, and the upgrade when an outbox is opened.

A file stores its version in PRAGMA user_version; a file of release 0.1 has 0 there, and the tables of version 1. To
change a table, add a step to STEPS; never edit a released step. All pending steps run in one transaction: a process
killed at any moment leaves the file unchanged or upgraded. Before a step that rewrites rows, the file is copied. If an
old copy is restored, the mark (agent/storage/outbox_mark.py) prevents that a tick is used twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.broker.service.back_up_sqlite import back_up


@dataclass(frozen=True, slots=True)
class Step:
    """The statements that lead from one version to the next."""

    statements: tuple[str, ...]
    rewrites: bool
    """Whether stored rows are changed or moved; a step that only adds tables or indices rewrites nothing."""


STEPS = (
    Step(
        (
            """CREATE TABLE IF NOT EXISTS stream (
  name TEXT PRIMARY KEY, period_ms INTEGER NOT NULL, watermark INTEGER NOT NULL,
  sampled INTEGER NOT NULL, dropped INTEGER NOT NULL
) WITHOUT ROWID""",
            """CREATE TABLE IF NOT EXISTS batch (
  id INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  made_ms INTEGER NOT NULL, payload BLOB NOT NULL
)""",
            "CREATE INDEX IF NOT EXISTS batch_by_tick ON batch (stream, last)",
            """CREATE TABLE IF NOT EXISTS release (
  stream TEXT NOT NULL, window TEXT NOT NULL, first INTEGER NOT NULL, entry INTEGER NOT NULL, payload BLOB,
  PRIMARY KEY (stream, window, first)
) WITHOUT ROWID""",
            """CREATE TABLE IF NOT EXISTS lost (
  stream TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (stream, first)
) WITHOUT ROWID""",
        ),
        rewrites=False,
    ),
)
"""Step n leads to version n. The first one also accepts the tables of release 0.1, which had no version."""


def upgrade(db: sqlite3.Connection, path: Path, steps: Sequence[Step] = STEPS) -> Path | None:
    """Upgrade an outbox to the newest version; return the path of the copy made before, or None without one.

    `db` has isolation_level None and no open transaction. Raises Problem, and leaves the file unchanged, when a newer
    version of hushmq wrote it or it cannot be copied.
    """
    newest = len(steps)
    if (found := version_of(db)) > newest:
        raise Problem(
            f"folder: {path} was written by a newer version of hushmq (outbox version {found}); this one supports up "
            f"to {newest}: install that version"
        )
    if found == newest:
        return None
    db.execute("BEGIN IMMEDIATE")
    try:
        new = db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
        rewrites = not new and any(step.rewrites for step in steps[found:])
        copy = back_up(path, f"before-{newest}", setting="folder") if rewrites else None
        for step in steps[found:]:
            for statement in step.statements:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {newest}")
        db.execute("COMMIT")
    except BaseException:
        # SQLite has rolled back by itself after a full disk or an I/O error.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return copy


def version_of(db: sqlite3.Connection) -> int:
    """The version stored in a file: 0 for a new file and for one of release 0.1."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)
