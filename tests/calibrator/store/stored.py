"""The database of release 0.1 that is stored with the tests, as SQLite and as PostgreSQL."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.calibrator.site import CALIBRATOR, OPS

FOLDER = Path(__file__).parent / "stored"


def fill(url: str) -> None:
    """Fill an empty database with what release 0.1 left behind."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as db:
            db.executescript((FOLDER / "release-0.1.sql").read_text())
        db.close()
    else:
        _fill_postgres(url)


def copy_mark(to: Path) -> None:
    """The high-water mark that belongs to it."""
    shutil.copy(FOLDER / "release-0.1.mark", to)


def write_config(folder: Path, url: str) -> Path:
    """The file of a calibrator on a database, with the mark in the same folder."""
    CALIBRATOR.save(folder / "signing.key")
    path = folder / "calibrator.toml"
    path.write_text(f"""
cohort = "test"
database = "{url}"
mark_file = "{folder / "mark"}"
[broker]
urls = ["mqtt://127.0.0.1:1"]
[keys]
ops_keys = ["{OPS.public}"]
signing_key_file = "{folder / "signing.key"}"
""")
    return path


def said(action: str) -> Any:
    """What `hushmq ledger <action> --json` of release 0.1 said about it."""
    return json.loads((FOLDER / f"release-0.1.{action}.json").read_text())


def _fill_postgres(url: str) -> None:
    rows = sqlite3.connect(":memory:")
    rows.executescript((FOLDER / "release-0.1.sql").read_text())
    with psycopg.connect(url.replace("+psycopg", "")) as db:
        db.execute((FOLDER / "release-0.1.postgresql.sql").read_bytes())
        tables = [
            name
            for (name,) in rows.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid")
        ]
        for table in tables:
            if not table.startswith("sqlite_"):
                _copy(rows, db, table)
        db.execute("SELECT setval(pg_get_serial_sequence('ledger', 'id'), max(id)) FROM ledger")
    rows.close()


def _copy(rows: sqlite3.Connection, db: psycopg.Connection[Any], table: str) -> None:
    found = rows.execute(f'SELECT * FROM "{table}"')  # noqa: S608  # our own names
    columns = [one[0] for one in found.description]
    target = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join(sql.Placeholder() * len(columns)),
    )
    for row in found:
        # SQLite has no truth values, only 0 and 1.
        values = [bool(value) if name == "sent" else value for name, value in zip(columns, row, strict=True)]
        db.execute(target, values)
