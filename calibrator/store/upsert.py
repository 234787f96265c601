"""Insert rows, or change those that are there: one statement on either database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql


def upsert(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An insert that has `excluded` and `on_conflict_do_update`."""
    if dialect == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415  # slow to import, and rarely needed

    return postgresql.insert(table)
