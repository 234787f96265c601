"""A later revision that does not exist, and the database of release 0.1 that it can be run on.

It rewrites the ledger, to which releases refer, moves data, and adds a table.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, inspect, text

from hushmq.calibrator.store.migrate import Upgrade, upgrade
from hushmq.calibrator.store.open_database import open_store, open_to_upgrade
from hushmq.calibrator.store.revisions import OURS, REVISION_TABLE, Revisions
from tests.calibrator.conftest import Databases
from tests.calibrator.store import stored

NEXT = f"{int(OURS.newest) + 1:04}"
REVISION = f'''"""Note who read a release."""

import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{OURS.newest}"


def upgrade() -> None:
    op.create_table("reader", sa.Column("entry", sa.BigInteger, primary_key=True))
    with op.batch_alter_table("ledger") as ledger:
        ledger.add_column(sa.Column("note", sa.Text, nullable=False, server_default=""))
    ledger = sa.table("ledger", sa.column("id"), sa.column("note"), sa.column("why"))
    op.execute(ledger.update().values(note=ledger.c.why))
    op.execute("INSERT INTO reader SELECT id FROM ledger")
'''  # noqa: S608


def later_revisions(folder: Path) -> Revisions:
    """Our revisions and one more."""
    shutil.copytree(OURS.folder, folder / "migrations")
    (folder / "migrations" / "versions" / f"{NEXT}_more.py").write_text(REVISION)
    return Revisions(folder / "migrations")


def prepared(databases: Databases) -> str:
    """The database of release 0.1, at our newest revision."""
    url = databases.fresh()
    stored.fill(url)
    open_store(url).dispose()
    for copy in backups(url):
        copy.unlink()
    return url


def add_to_revision(later: Revisions, statement: str) -> None:
    (later.folder / "versions" / f"{NEXT}_more.py").write_text(f"{REVISION}    op.execute({statement!r})\n")


def backups(url: str) -> list[Path]:
    """What lies beside a SQLite database, but for its own files."""
    if not url.startswith("sqlite"):
        return []
    database = Path(url.removeprefix("sqlite:///"))
    return sorted(one for one in database.parent.glob(f"{database.name}.*"))


def upgraded(url: str, revisions: Revisions, log: Any = None) -> Upgrade:
    engine = open_to_upgrade(url)
    try:
        return upgrade(engine, log, revisions=revisions)
    finally:
        engine.dispose()


def content(url: str) -> list[Any]:
    """The rows of the tables that the revision rewrites, and of those that refer to them."""
    engine = create_engine(url)
    with engine.connect() as db:
        found = [
            [tuple(row) for row in db.execute(text(query))]
            for query in (
                "SELECT * FROM ledger ORDER BY id",
                "SELECT entry, topic, payload, sent FROM release ORDER BY entry, topic",
            )
        ]
    engine.dispose()
    return found


def schema(url: str) -> dict[str, Any]:
    """Everything that the database says about its tables."""
    engine = create_engine(url)
    inspector = inspect(engine)
    found = {
        what.__name__: {
            table: str(facts) for (_, table), facts in sorted(what().items()) if table != REVISION_TABLE
        }
        for what in (
            inspector.get_multi_columns,
            inspector.get_multi_pk_constraint,
            inspector.get_multi_indexes,
            inspector.get_multi_foreign_keys,
            inspector.get_multi_unique_constraints,
        )
    }
    engine.dispose()
    return found
