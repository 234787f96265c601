"""Opens the calibrator's database so that a commit is on disk.

Every transaction of `open_store` takes the one write lock at its start (SQLite: BEGIN IMMEDIATE; PostgreSQL: an
advisory lock until the transaction ends), so that two calibrators on one database cannot both read a budget
before either has spent it. In a database of many cohorts each has its own lock (calibrator/store/cohort_schema.py).
SQLite runs with WAL and synchronous=FULL, PostgreSQL with synchronous_commit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.store.cohort_schema import lock_cohort
from hushmq.calibrator.store.migrate import cause, check_readable, revision_of, shown, upgrade
from hushmq.calibrator.store.revisions import REVISION_TABLE
from hushmq.calibrator.store.storage_away import WRONG_SETTING, StorageAway, in_words, passes


def open_store(url: str, *, log: FilteringBoundLogger | None = None, reopening: bool = False) -> Engine:
    """Open the database for writing and upgrade it, or create its tables.

    Raises Problem when that is not possible, StorageAway when it may be later. With `reopening` it was there before: a
    missing file is not made anew, and whatever the server says may pass.
    """
    engine = open_to_upgrade(url)
    if (path := _sqlite_file(engine)) is not None:
        if reopening and not path.is_file():
            raise StorageAway(f"database: {shown(engine)} is not there any more")
        _make_private(path)
    try:
        with _checked_first(url):
            upgrade(engine, log)
        with engine.begin() as db:  # what can be read cannot always be written
            db.execute(text(f"UPDATE {REVISION_TABLE} SET version_num = version_num"))  # noqa: S608
    except SQLAlchemyError as error:
        engine.dispose()
        if passes(error) and (reopening or not any(words in cause(error) for words in WRONG_SETTING)):
            raise StorageAway(in_words(engine, error)) from None
        raise Problem(f"database: {shown(engine)} cannot be opened: {cause(error)}") from None
    if engine.dialect.name == "postgresql":
        _limit_statements(engine)
    return engine


@contextmanager
def _checked_first(url: str) -> Iterator[None]:
    """Refuse a SQLite file that is not ours before it is opened for writing, which would change its journal to WAL.

    The connection for the check outlives the opening: SQLite checkpoints, and waits for the disk, when the last
    connection closes.
    """
    if make_url(url).get_backend_name() == "sqlite":
        with reading(plain_engine(url)) as db:
            revision_of(db)
            db.rollback()
            yield
    else:
        yield


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection; the engine is disposed of after it."""
    try:
        with engine.connect() as db:
            yield db
    finally:
        engine.dispose()


def _sqlite_file(engine: Engine) -> Path | None:
    """The file of a SQLite database; None for one in memory and for PostgreSQL."""
    name = engine.url.database or ":memory:"
    return None if engine.dialect.name != "sqlite" or name == ":memory:" else Path(name)


def _make_private(path: Path) -> None:
    """Make the database's folder and file where they are missing, for their owner alone, and close an open file.

    It holds sanitized states and exact statistics, which whoever may read releases only must not read. SQLite gives
    the files beside it the same mode.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # An existing file is not opened: closing its handle would drop the locks of SQLite in this process.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        mode = path.stat().st_mode & 0o777
        if mode & 0o077:
            path.chmod(mode & 0o700)
    except OSError as error:
        raise Problem(f"database: {error.filename}: {error.strerror}") from None


def open_to_read(url: str) -> Engine:
    """Open an existing database without its write lock, to read it while a calibrator works."""
    engine = plain_engine(url)
    check_exists(engine)
    try:
        with engine.connect() as db:
            check_readable(db)
    except SQLAlchemyError as error:
        raise Problem(f"database: {shown(engine)} holds no ledger: {cause(error)}") from None
    return engine


def open_to_upgrade(url: str) -> Engine:
    """An engine whose commits are durable and whose transactions take the write lock; nothing is opened yet."""
    engine = plain_engine(url)
    if engine.dialect.name == "sqlite":
        _make_sqlite_durable(engine)
    else:
        _lock_postgres(engine)
    return engine


def check_exists(engine: Engine) -> None:
    """Problem when a SQLite file is not there: SQLite itself would make an empty one."""
    path = _sqlite_file(engine)
    if path is not None and not path.is_file():
        raise Problem(f"database: {shown(engine)} does not exist")


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


def plain_engine(url: str) -> Engine:
    """An engine through which reading changes nothing; Problem when the URL cannot be used."""
    try:
        # An error does not repeat what was to be written: states, and exact statistics.
        settings = PATIENT if make_url(url).get_backend_name() == "postgresql" else {}
        engine = create_engine(make_url(url), hide_parameters=True, connect_args=settings)
    except ModuleNotFoundError as error:
        raise Problem(
            f"database: {_without_password(url)} needs {error.name}, which is not installed: "
            "pip install 'hushmq[postgres]'"
        ) from None
    except SQLAlchemyError as error:
        raise Problem(
            f"database: {_without_password(url)} cannot be used ({cause(error)}): "
            "e.g. sqlite:////var/lib/hushmq/ledger.db"
        ) from None
    if engine.dialect.name not in {"sqlite", "postgresql"}:
        raise Problem(f"database: {shown(engine)} cannot be used: SQLite and PostgreSQL can")
    return engine


def _without_password(url: str) -> str:
    """The URL without its password; one that cannot be parsed is not repeated, for it may hold one."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except SQLAlchemyError:
        return "the URL"


def _make_sqlite_durable(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _pragmas(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_MS}"):
            connection.execute(f"PRAGMA {pragma}")

    path = _sqlite_file(engine)

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        # SQLite goes on writing to a file that was deleted or replaced: what it commits there is lost.
        if path is not None:
            found = _identity(path)
            if found is None or connection.info.setdefault("file", found) != found:
                raise OperationalError(None, None, FileNotFoundError(f"{path} was removed or replaced"))
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _lock_postgres(engine: Engine) -> None:
    in_cohort = "options" in engine.url.query

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        if not (in_cohort and lock_cohort(connection)):
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to; None where it leads to none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _limit_statements(engine: Engine) -> None:
    """Let no statement hang for ever on a server that does not answer: it is tried again later."""

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {STATEMENT_MS}")


STATEMENT_MS = 40_000
"""The longest that a statement may take, a wait for the write lock included; systemd's watchdog waits a minute."""
PATIENT = {"connect_timeout": 10, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
"""How long a server of PostgreSQL may be silent before the connection to it counts as broken (libpq's settings)."""
BUSY_MS = 10_000
"""How long a transaction waits for another process that has locked the SQLite file, such as a backup."""
LOCK = 0x6875_7368
"""The advisory lock's number: nobody else uses it in a database of ours."""
