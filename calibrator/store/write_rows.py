"""Write many rows with one statement.

SQLAlchemy prepares the parameters of every row anew, which takes longer than SQLite takes to write it. Here a statement
is compiled once, and the driver gets its rows as they are: they hold numbers, texts and bytes, which need no preparing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql.dml import UpdateBase

Row = tuple[int | str | bytes, ...]


def write_rows(db: Connection, statement: UpdateBase, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
    """Execute a statement for each of the rows, whose values are the parameters named by `columns`.

    `statement` is one that lasts: what it compiles to is remembered.
    """
    if not rows:
        return
    text, order = _compiled(statement, columns, db.dialect)
    if order is None:
        db.exec_driver_sql(text, [dict(zip(columns, row, strict=True)) for row in rows])
    elif order == tuple(range(len(columns))):
        db.exec_driver_sql(text, list(rows))
    else:
        db.exec_driver_sql(text, [tuple([row[place] for place in order]) for row in rows])


@lru_cache(maxsize=64)
def _compiled(
    statement: UpdateBase, columns: tuple[str, ...], dialect: Dialect
) -> tuple[str, tuple[int, ...] | None]:
    """The statement as the driver takes it, and the places of its parameters; None where they have names."""
    compiled: Any = statement.compile(dialect=dialect, column_keys=list(columns))
    if compiled.positiontup is None:
        return str(compiled), None
    return str(compiled), tuple(columns.index(name) for name in compiled.positiontup)
