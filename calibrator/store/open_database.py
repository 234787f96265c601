"""Opens the calibrator's database so that a commit is on disk.

Every transaction of `open_store` takes the one write lock at its start (SQLite: BEGIN IMMEDIATE; PostgreSQL: an
advisory lock until the transaction ends), so that two calibrators on one database cannot both read a budget
before either has spent it. SQLite runs with WAL and synchronous=FULL, PostgreSQL with synchronous_commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import SQLAlchemyError
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.store.migrate import cause, check_readable, revision_of, shown, upgrade


def open_store(url: str, *, log: FilteringBoundLogger | None = None) -> Engine:
    """Open the database for writing and upgrade it, or create its tables; Problem when that is not possible."""
    engine = open_to_upgrade(url)
    try:
        with _checked_first(url):
            upgrade(engine, log)
    except SQLAlchemyError as error:
        raise Problem(f"database: {shown(engine)} cannot be opened: {cause(error)}") from None
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
    if engine.dialect.name == "sqlite" and not Path(engine.url.database or "").is_file():
        raise Problem(f"database: {shown(engine)} does not exist")


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


def plain_engine(url: str) -> Engine:
    """An engine through which reading changes nothing; Problem when the URL cannot be used."""
    try:
        # An error does not repeat what was to be written: states, and exact statistics.
        engine = create_engine(make_url(url), hide_parameters=True)
    except (SQLAlchemyError, ModuleNotFoundError) as error:
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
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=10000"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _lock_postgres(engine: Engine) -> None:
    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")


LOCK = 0x6875_7368
"""The advisory lock's number: nobody else uses it in a database of ours."""
