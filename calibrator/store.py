"""The calibrator's database: its tables, and how it is opened so that a commit is on disk.

SQLite runs with WAL and synchronous=FULL, and every transaction takes the write lock at its start, so that two
calibrators on one file cannot both read a budget before either has spent it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Engine,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    create_engine,
    event,
)
from sqlalchemy.exc import SQLAlchemyError

from broker.problem import Problem

metadata = MetaData()

# SQLite gives rowids, and so sequence numbers, only to columns declared INTEGER.
Sequence = BigInteger().with_variant(Integer, "sqlite")

policy = Table(
    "policy",
    metadata,
    Column("version", BigInteger, primary_key=True),
    Column("payload", LargeBinary, nullable=False),
)

setting = Table(
    "setting",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("policy", BigInteger, nullable=False),
    Column("rho0", Float, nullable=False),
    Column("rho1", Float, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)

batch = Table(
    "batch",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("stream", String(64), primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("last", BigInteger, nullable=False),
    Column("noise", BigInteger, nullable=False),
    Column("states", LargeBinary, nullable=False),
)
"""Counted sanitized states, one byte each; pruned once every window over them has closed."""

accounted = Table(
    "accounted",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("stream", String(64), primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("last", BigInteger, nullable=False),
)
"""Runs of ticks that are counted or known to be gaps. What lies between two runs is a hole."""

tally = Table(
    "tally",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("stream", String(64), primary_key=True),
    Column("counted", BigInteger, nullable=False),
    Column("late", BigInteger, nullable=False),
)

extent = Table(
    "extent",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("noise", BigInteger, primary_key=True),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
)
"""The ticks at which any device used a noise version: the operator's timeline."""

ledger = Table(
    "ledger",
    metadata,
    Column("id", Sequence, primary_key=True, autoincrement=True),
    Column("stream", String(64), nullable=False),
    Column("window", String(64), nullable=False),
    Column("audience", String(16), nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("tilt", BigInteger, nullable=False),
    Column("rho0", Float, nullable=False),
    Column("rho1", Float, nullable=False),
    Column("why", String(64), nullable=False),
    Column("at", String(32), nullable=False),
    sqlite_autoincrement=True,
)
"""Append-only. `tilt` is what the entry costs on the sanitized states, in nano-nats rounded up; (rho0, rho1) is
the least noise any of those states carries, through which the tilt is amplified when the ledger is priced."""

statistic = Table(
    "statistic",
    metadata,
    Column("entry", Sequence, ForeignKey("ledger.id"), primary_key=True),
    Column("device", String(64), primary_key=True),
    Column("noise", BigInteger, primary_key=True),
    Column("stream", String(64), nullable=False),
    Column("ticks", BigInteger, nullable=False),
    Column("ones", BigInteger, nullable=False),
    Column("pairs", BigInteger, nullable=False),
    Column("changes", BigInteger, nullable=False),
)
"""What may be learned from: `ones` and `changes` carry charged noise, `ticks` and `pairs` are no secret."""

release = Table(
    "release",
    metadata,
    Column("entry", Sequence, ForeignKey("ledger.id"), primary_key=True),
    Column("topic", String(400), nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("sent", Boolean, nullable=False),
)

closed = Table(
    "closed",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("window", String(64), primary_key=True),
    Column("through", BigInteger, nullable=False),
)
"""The last tick through which a window's tumbling sequence has been closed."""


def open_store(url: str) -> Engine:
    """Open the database, create what is missing, or say what is wrong with the URL."""
    try:
        engine = create_engine(url)
    except (SQLAlchemyError, ModuleNotFoundError) as error:
        raise Problem(
            f"database: {url!r} cannot be used ({error}): e.g. sqlite:////var/lib/hushmq/ledger.db"
        ) from None
    if engine.dialect.name == "sqlite":
        _make_sqlite_durable(engine)
    try:
        metadata.create_all(engine)
    except SQLAlchemyError as error:
        raise Problem(
            f"database: {url!r} cannot be opened: {error.args[0] if error.args else error}"
        ) from None
    return engine


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


def _make_sqlite_durable(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _pragmas(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=10000"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
