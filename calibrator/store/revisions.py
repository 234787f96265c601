"""The numbered revisions of the database's schema, and how they are run.

Alembic is imported only where revisions are run: a database that is up to date is opened without it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, create_engine, inspect

from hushmq.calibrator.store.tables import metadata

if TYPE_CHECKING:
    from alembic.config import Config

REVISION_TABLE = "alembic_version"
"""The table with one row, the database's revision. Release 0.1 had none, and is revision 0001."""

Columns = Mapping[str, frozenset[str]]
"""The names of a schema's columns, by table."""

_one_at_a_time = threading.Lock()
"""Alembic's `op` and `context` belong to the process."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision, and in words what it changes."""

    number: str
    summary: str


@dataclass(frozen=True, slots=True)
class Revisions:
    """The revisions in a folder as Alembic wants it."""

    folder: Path

    @property
    def numbers(self) -> tuple[str, ...]:
        """All of them in order, from their files' names: versions/0001_first_release.py is revision 0001."""
        return tuple(sorted(path.name[:4] for path in (self.folder / "versions").glob("[0-9]*.py")))

    @property
    def first(self) -> str:
        return self.numbers[0]

    @property
    def newest(self) -> str:
        return self.numbers[-1]

    def after(self, number: str) -> tuple[Revision, ...]:
        """What a database of this revision still needs, in order."""
        from alembic.script import ScriptDirectory  # noqa: PLC0415  # as the module's docstring says

        script = ScriptDirectory(str(self.folder))
        later = (one for one in self.numbers if one > number)
        return tuple(Revision(one, script.get_revision(one).doc.rstrip(".")) for one in later)

    def run(self, db: Connection, to: str | None = None) -> None:
        """Upgrade to a revision, by default the newest, within the transaction of `db`."""
        from alembic import command  # noqa: PLC0415  # as above

        with _one_at_a_time:
            command.upgrade(self._config(db), to or self.newest)

    def stamp(self, db: Connection, number: str) -> None:
        """Write down which revision a database has, within the transaction of `db`; nothing else changes."""
        from alembic import command  # noqa: PLC0415  # as above

        with _one_at_a_time:
            command.stamp(self._config(db), number)

    def columns_at(self, number: str) -> Columns:
        """The tables and columns that a database of this revision must have."""
        if number == self.newest:
            return {table.name: frozenset(table.c.keys()) for table in metadata.sorted_tables}
        engine = create_engine("sqlite://")
        with engine.begin() as db:
            self.run(db, number)
            found = columns(db)
        engine.dispose()
        return found

    def _config(self, db: Connection) -> Config:
        from alembic.config import Config  # noqa: PLC0415  # as above

        config = Config(attributes={"connection": db})
        config.set_main_option("script_location", str(self.folder).replace("%", "%%"))
        return config


OURS = Revisions(Path(__file__).parent / "migrations")


def columns(db: Connection) -> Columns:
    """The tables that a database has, without that of its revision, and their columns."""
    return {
        table: frozenset(column["name"] for column in found)
        for (_, table), found in inspect(db).get_multi_columns().items()
        if table != REVISION_TABLE
    }
