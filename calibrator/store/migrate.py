"""Upgrades a database at start: which revision it has, and the way from there to the newest.

The whole upgrade is one transaction under the database's write lock, the first thing a calibrator does with it: of two
that start at once, one upgrades and the other finds it done; killed at any moment, the database is as it was or
upgraded. On SQLite a copy is made beside it first (broker/service/back_up_sqlite.py). What is no database of ours, is
damaged, or was written by a newer version is refused in words and left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.problem import Problem
from hushmq.broker.service.back_up_sqlite import back_up
from hushmq.calibrator.store.revisions import OURS, REVISION_TABLE, Revisions, columns


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an upgrade did: the revision before it (None: the database was empty), and where the copy is."""

    before: str | None
    backup: Path | None = None


def upgrade(
    engine: Engine, log: FilteringBoundLogger | None = None, *, revisions: Revisions = OURS
) -> Upgrade:
    """Bring a database to the newest revision, or create its tables; Problem when it must be left alone."""
    with _locked(engine) as db:
        before, newest = revision_of(db, revisions), revisions.newest
        stamped = _is_stamped(db)
        if before == newest and stamped:
            return Upgrade(before)
        copy = _back_up(db, f"before-{newest}") if before not in {None, newest} else None
        if copy is not None and log is not None:
            log.info("database_backed_up", path=str(copy), revision=before)
        try:
            if before is not None and not stamped:
                revisions.stamp(db, before)
            revisions.run(db)
            _check_references(db)
        except SQLAlchemyError as error:
            what = "filled with tables" if before is None else f"upgraded from revision {before} to {newest}"
            raise Problem(
                f"database: {shown(db.engine)} cannot be {what}: {cause(error)}; nothing was changed"
            ) from None
    if before not in {None, newest} and log is not None:
        log.info("database_upgraded", revision_before=before, revision=newest)
    return Upgrade(before, copy)


def revision_of(db: Connection, revisions: Revisions = OURS) -> str | None:
    """The revision of a database, None when it is empty; Problem when it is not one of ours that we know."""
    there, stamped = columns(db), _is_stamped(db)
    if not there and not stamped:
        return None
    if there and not there.keys() & revisions.columns_at(revisions.newest).keys():
        raise Problem(
            f"database: {shown(db.engine)} is no database of hushmq: it holds {_named(set(there))}; "
            "give hushmq a database of its own"
        )
    revision = _stamped_revision(db, revisions) if stamped else revisions.first
    for table, wanted in revisions.columns_at(revision).items():
        missing = wanted - there.get(table, frozenset())
        if missing:
            lacks = f"table {table} has no {_named(set(missing))}" if table in there else f"no table {table}"
            raise Problem(
                f"database: {shown(db.engine)} is damaged, older than hushmq 0.1, or not hushmq's: {lacks}; "
                "restore a backup, or use a new database and new names for the streams"
            )
    return revision


def check_readable(db: Connection, *, revisions: Revisions = OURS) -> None:
    """Problem unless the database has the newest revision: whoever only reads does not upgrade."""
    revision = revision_of(db, revisions)
    if revision is None:
        raise Problem(f"database: {shown(db.engine)} holds no ledger: it is empty")
    if revision != revisions.newest:
        raise Problem(
            f"database: {shown(db.engine)} has revision {revision} and must be upgraded to {revisions.newest} before "
            "it can be read: start the calibrator, or run hushmq calibrator upgrade"
        )


def shown(engine: Engine) -> str:
    """The database's URL without its password."""
    return engine.url.render_as_string(hide_password=True)


def cause(error: Exception) -> str:
    """The first line of what the driver says."""
    return str(error.args[0] if error.args else type(error).__name__).strip().split("\n")[0]


@contextmanager
def _locked(engine: Engine) -> Iterator[Connection]:
    """A transaction under the write lock; on SQLite a table can be rewritten while others refer to it."""
    with engine.connect() as db:
        sqlite = db.dialect.name == "sqlite"
        if sqlite:
            # Within a transaction SQLite ignores this; references are checked before the commit instead.
            db.connection.cursor().execute("PRAGMA foreign_keys=OFF")
        try:
            with db.begin():
                yield db
        finally:
            if sqlite:
                db.connection.cursor().execute("PRAGMA foreign_keys=ON")


def _is_stamped(db: Connection) -> bool:
    return db.dialect.has_table(db, REVISION_TABLE)


def _stamped_revision(db: Connection, revisions: Revisions) -> str:
    found = db.execute(text(f"SELECT version_num FROM {REVISION_TABLE}")).scalars().all()  # noqa: S608
    if len(found) != 1:
        raise Problem(
            f"database: {shown(db.engine)} is damaged: its table {REVISION_TABLE} has {len(found)} rows instead of "
            "one; restore a backup"
        )
    if found[0] not in revisions.numbers:
        raise Problem(
            f"database: {shown(db.engine)} was written by a newer version of hushmq (revision {found[0]}); this one "
            f"knows up to {revisions.newest}: install that version, or restore a backup from before its upgrade"
        )
    return str(found[0])


def _back_up(db: Connection, suffix: str) -> Path | None:
    """Copy a SQLite database beside itself. PostgreSQL has tools of its own, and the documents ask to use them."""
    if db.dialect.name != "sqlite":
        return None
    file = db.execute(text("SELECT file FROM pragma_database_list WHERE name = 'main'")).scalar()
    return back_up(Path(file), suffix, setting="database") if file else None


def _check_references(db: Connection) -> None:
    if db.dialect.name == "sqlite" and (broken := db.execute(text("PRAGMA foreign_key_check")).first()):
        raise Problem(
            f"database: {shown(db.engine)} cannot be upgraded: table {broken[0]} refers to rows that {broken[2]} does "
            "not have; nothing was changed"
        )


def _named(names: set[str]) -> str:
    return ", ".join(sorted(names)[:5]) + (", …" if len(names) > 5 else "")
