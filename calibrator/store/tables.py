"""The calibrator's database: its tables, and how it is opened so that a commit is on disk.

Every transaction of `open_store` takes the one write lock at its start (SQLite: BEGIN IMMEDIATE; PostgreSQL: an
advisory lock until the transaction ends), so that two calibrators on one database cannot both read a budget
before either has spent it. SQLite runs with WAL and synchronous=FULL, PostgreSQL with synchronous_commit.
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
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    inspect,
    make_url,
    select,
)
from sqlalchemy.exc import SQLAlchemyError

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.models.binary.binary_statistics import BANDS

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
    Column("device", String(64), nullable=True),
    Column("issued", BigInteger, nullable=False, server_default="0"),
    Column("noise", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)
"""Every setting ever made. `device` is None for the cohort's; no tick before `issued` can carry its noise, which is
written as calibrator/models/chain_model.py does."""

batch = Table(
    "batch",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("stream", String(64), primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("last", BigInteger, nullable=False),
    Column("noise", BigInteger, nullable=False),
    Column("states", LargeBinary, nullable=False),
    Index("batch_of_stream", "stream", "first"),
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

quarantine = Table(
    "quarantine",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("reason", String(32), nullable=False),
    Column("strikes", BigInteger, nullable=False),
    Column("until", Float(53), nullable=False),
)
"""Devices that misbehaved: how often, why last, and until when (seconds since the epoch) they are set aside."""

device_tilt = Table(
    "device_tilt",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("policy", BigInteger, primary_key=True),
    Column("tilt", BigInteger, nullable=False),
)
"""What device-made windows cost at every tick under each policy ever followed, in nano-nats rounded up."""

ledger = Table(
    "ledger",
    metadata,
    Column("id", Sequence, primary_key=True, autoincrement=True),
    Column("stream", String(64), nullable=False),
    Column("window", String(64), nullable=False),
    Column("scope", String(64), nullable=False, server_default="cohort"),
    Column("audience", String(16), nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("tilt", BigInteger, nullable=False),
    Column("noise", BigInteger, nullable=False),
    Column("noise_digest", String(32), nullable=False),
    Column("why", String(64), nullable=False),
    Column("at", String(32), nullable=False),
    Column("digest", String(64), nullable=False),
    Index("ledger_of_stream", "stream", "id"),
    sqlite_autoincrement=True,
)
"""Append-only. `tilt` is what the entry costs on the sanitized states of each member, in nano-nats rounded up. `noise`
is the version of the setting with the least noise any of those states can carry, through which the tilt is amplified
when the ledger is priced; `noise_digest` stands for that noise itself. `digest` covers the entry and the one before
it (calibrator/ledger/high_water_mark.py)."""

statistic = Table(
    "statistic",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("block", BigInteger, primary_key=True),
    Column("device", String(64), primary_key=True),
    Column("noise", BigInteger, primary_key=True),
    Column("ticks", BigInteger, nullable=False),
    Column("ones", BigInteger, nullable=False),
    *(
        Column(f"{name}_{band}", BigInteger, nullable=False)
        for name in ("starts", "changes")
        for band in range(len(BANDS))
    ),
    Column("variance", Float(53), nullable=False),
)
"""What may be learned from, summed over the draws of a block (calibrator/learning/learn_window.py): `ones` and
`changes` carry charged noise of the stated `variance`; `ticks` and `starts` are no secret."""

pending = Table(
    "pending",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("device", String(64), primary_key=True),
    Column("noise", BigInteger, primary_key=True),
    Column("ticks", BigInteger, nullable=False),
    Column("starts", Text, nullable=False),
    Column("groups", Text, nullable=False),
    Column("tilt", BigInteger, nullable=False),
)
"""Exact sums of windows that are charged and wait for their noise (calibrator/learning/pending_statistics.py);
`tilt` is the least that any of them was charged for it. Lists are JSON. As secret as the states in `batch`, of which
they are sums."""

learning = Table(
    "learning",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("windows", BigInteger, nullable=False),
    Column("lasting", Text, nullable=False),
    Column("hidden", Float(53), nullable=False),
    Column("contradictions", BigInteger, nullable=False),
)
"""Per stream: windows learned from since the last contradiction, the misfit (calibrator/learning/learn_window.py),
contradictions so far. Lists are JSON."""

belief = Table(
    "belief",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("device", String(64), primary_key=True),
    *(Column(name, Float(53), nullable=False) for name in ("q_low", "q_high", "r_low", "r_high")),
)
"""The intersection of the looks so far, for one device or, with an empty name, for any device of the cohort."""

statistic_k = Table(
    "statistic_k",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("block", BigInteger, primary_key=True),
    Column("device", String(64), primary_key=True),
    Column("noise", BigInteger, primary_key=True),
    Column("ticks", BigInteger, nullable=False),
    Column("starts", Text, nullable=False),
    Column("counts", Text, nullable=False),
    Column("pairs", Text, nullable=False),
    Column("variance", Float(53), nullable=False),
)
"""The same for more than two states (calibrator/models/categorical/categorical_statistics.py); lists of whole
numbers are JSON."""

belief_k = Table(
    "belief_k",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("device", String(64), primary_key=True),
    Column("chains", Text, nullable=False),
)
"""As `belief`, for more than two states: the class as it is written on the wire."""

release = Table(
    "release",
    metadata,
    Column("entry", Sequence, ForeignKey("ledger.id"), primary_key=True),
    Column("topic", String(400), primary_key=True),
    Column("payload", LargeBinary, nullable=False),
    Column("sent", Boolean, nullable=False),
)
"""The bytes to publish, and whether the broker has acknowledged them."""

closed = Table(
    "closed",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("window", String(64), primary_key=True),
    Column("scope", String(64), primary_key=True),
    Column("through", BigInteger, nullable=False),
)
"""The last tick through which a window's tumbling sequence has been closed."""

DEVICES = "devices"
"""The scope under which `closed` says how far the releases that devices make have been added up."""

collected = Table(
    "collected",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("window", String(64), primary_key=True),
    Column("device", String(64), primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("payload", LargeBinary, nullable=False),
)
"""Releases that devices made, until they are added up, and each device's newest."""

aggregate = Table(
    "aggregate",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("topic", String(400), nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("sent", Boolean, nullable=False),
)
"""Sums of what devices released: the bytes to publish, and whether the broker has acknowledged them."""


def open_store(url: str) -> Engine:
    """Open the database for writing, create what is missing, or say what is wrong with the URL."""
    engine = _engine(url)
    if engine.dialect.name == "sqlite":
        _make_sqlite_durable(engine)
    else:
        _lock_postgres(engine)
    try:
        metadata.create_all(engine)
        _check_columns(engine, url)
    except SQLAlchemyError as error:
        raise Problem(f"database: {_shown(url)} cannot be opened: {_cause(error)}") from None
    return engine


def open_to_read(url: str) -> Engine:
    """Open an existing database without its write lock, to look at it while a calibrator works."""
    engine = _engine(url)
    if engine.dialect.name == "sqlite" and not Path(engine.url.database or "").is_file():
        raise Problem(f"database: {_shown(url)} does not exist")
    try:
        with engine.connect() as db:
            db.execute(select(ledger.c.digest).limit(1))
        _check_columns(engine, url)
    except SQLAlchemyError as error:
        raise Problem(f"database: {_shown(url)} holds no ledger: {_cause(error)}") from None
    return engine


def _check_columns(engine: Engine, url: str) -> None:
    """A database of another version is refused before anything is read from it or written to it."""
    there = inspect(engine).get_multi_columns()
    for (_, table), columns in there.items():
        wanted = {column.name for column in metadata.tables[table].c} if table in metadata.tables else set()
        if missing := wanted - {column["name"] for column in columns}:
            raise Problem(
                f"database: {_shown(url)} is of another version of hushmq: table {table} has no "
                f"{', '.join(sorted(missing))}; use that version, or a new database and new names for the streams"
            )


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


def _engine(url: str) -> Engine:
    try:
        # An error does not repeat what was to be written: states, and sums that wait for their noise.
        engine = create_engine(make_url(url), hide_parameters=True)
    except (SQLAlchemyError, ModuleNotFoundError) as error:
        raise Problem(
            f"database: {_shown(url)} cannot be used ({_cause(error)}): e.g. sqlite:////var/lib/hushmq/ledger.db"
        ) from None
    if engine.dialect.name not in {"sqlite", "postgresql"}:
        raise Problem(f"database: {_shown(url)} cannot be used: SQLite and PostgreSQL can")
    return engine


def _shown(url: str) -> str:
    """The URL without its password; one that cannot be read is not repeated, for it may hold one."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except SQLAlchemyError:
        return "the URL"


def _cause(error: Exception) -> str:
    """The first line of what the driver says."""
    return str(error.args[0] if error.args else type(error).__name__).strip().split("\n")[0]


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
