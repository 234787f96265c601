"""Measures a cohort in this process: batches of many states, windows, releases, and what they leave on disk."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, func, select, text

from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.ledger.high_water_mark import FIELDS, append_entry
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import plain_engine
from hushmq.capacity.measured_cohort import STREAM, TOPICS, Scope, batch, opened_cohort, policy
from hushmq.capacity.process_usage import processor_s, resident_bytes

TICKS = 90
"""Ticks in a window, and in a batch: a quarter of an hour, ten seconds each."""
FEW, MANY = 50, 300
"""Devices of the two cohorts that are compared."""
WINDOWS = 3
"""So many that none is the one of a theta update, which comes after 4, 8, 16, … windows."""
PERIOD_S = 10
BEGIN = 1_800_000_000 // (PERIOD_S * TICKS) * TICKS
MORE_ENTRIES = 500
OF_DEVICE = ("accounted", "tally", "roster", "learned_theta", "pending")
"""Tables with a row or a few for each device and stream."""
MEASURED = ("batch", "release", "ledger", *OF_DEVICE)
LONG = 4_000
"""States of a large batch."""


@dataclass(frozen=True, slots=True)
class WindowCosts:
    """What windows of one scope take in one database."""

    window_s: float
    device_s: float
    server_device_s: float
    entry_bytes: float
    release_bytes: float
    batch_bytes: float
    device_bytes: float
    archived_bytes: float
    release_payload: bytes


def measure_windows(urls: tuple[str, str], scope: Scope) -> WindowCosts:
    """Close windows of few and of many devices, each in a database of its own."""
    few, many = (_closed(url, devices, scope) for url, devices in zip(urls, (FEW, MANY), strict=True))
    device_s = max(0.0, (many.seconds - few.seconds) / (MANY - FEW))
    return WindowCosts(
        window_s=max(0.0, few.seconds - FEW * device_s),
        device_s=device_s,
        server_device_s=many.server_s / MANY,
        entry_bytes=many.entry_bytes,
        release_bytes=many.release_bytes,
        batch_bytes=many.batch_bytes,
        device_bytes=many.device_bytes,
        archived_bytes=many.archived_bytes,
        release_payload=many.payload,
    )


@dataclass(frozen=True, slots=True)
class _Closed:
    seconds: float
    """Of one window."""
    server_s: float
    entry_bytes: float
    release_bytes: float
    batch_bytes: float
    device_bytes: float
    archived_bytes: float
    payload: bytes


def _closed(url: str, devices: int, scope: Scope) -> _Closed:
    now = [float(BEGIN * PERIOD_S)]
    message = policy(period_ms=PERIOD_S * 1000, ticks=TICKS, scope=scope)
    with opened_cohort(url, message, lambda: now[0]) as (cohort, engine):
        with engine.connect() as db:
            backend = server_pid(db)
        took, server = [], []
        batch_bytes = 0.0
        for number in range(WINDOWS):
            first = BEGIN + number * TICKS
            now[0] = float((first + TICKS) * PERIOD_S)
            _send(cohort, devices, first, TICKS)
            if number == WINDOWS - 1:
                _compact(engine)
                with engine.connect() as db:
                    batch_bytes = (table_bytes(db, "batch") / devices) - TICKS
            now[0] += 2.0
            began, server_began = time.process_time(), processor_s(backend)
            closed = cohort.close_due()
            cohort.mark_sent(cohort.unsent())
            took.append(time.process_time() - began)
            server.append(processor_s(backend) - server_began)
            if len(closed.windows) != 1 or closed.windows[0].charge is None:
                raise RuntimeError(f"one window was to be released: {closed.windows}")
        entry_bytes = _entry_bytes(engine)
        _compact(engine)
        with engine.connect() as db:
            releases = db.execute(select(func.count()).select_from(store.release)).scalar_one()
            each = sum(table_bytes(db, name) for name in OF_DEVICE)
            payloads = (
                db.execute(select(store.release.c.payload).order_by(store.release.c.entry)).scalars().all()
            )
            return _Closed(
                seconds=sum(took[1:]) / (WINDOWS - 1),
                server_s=sum(server[1:]) / (WINDOWS - 1),
                entry_bytes=entry_bytes,
                release_bytes=table_bytes(db, "release") / releases,
                batch_bytes=max(0.0, batch_bytes),
                device_bytes=each / devices,
                archived_bytes=archived_bytes(payloads),
                payload=payloads[-1],
            )


def _compact(engine: Engine) -> None:
    """Free the room of rows that are gone, which autovacuum gives to later ones; SQLite's tables hold none."""
    if engine.dialect.name == "postgresql":
        with plain_engine(engine.url.render_as_string(hide_password=False)).connect() as db:
            db.execution_options(isolation_level="AUTOCOMMIT").execute(
                text(f"VACUUM FULL {', '.join(MEASURED)}")
            )


def _entry_bytes(engine: Engine) -> float:
    """What an entry takes, from the room that so many more like the last one need."""
    with engine.begin() as db:
        before = table_bytes(db, "ledger")
        last = db.execute(select(store.ledger).order_by(store.ledger.c.id.desc()).limit(1)).one()._asdict()
        for number in range(MORE_ENTRIES):
            shift = (number + 1) * TICKS
            fields = {name: last[name] for name in FIELDS}
            append_entry(db, fields | {"first": last["first"] + shift, "last": last["last"] + shift})
        return (table_bytes(db, "ledger") - before) / MORE_ENTRIES


def _send(cohort: Cohort, devices: int, first: int, count: int) -> None:
    cohort.receive(
        [
            Arrived(
                TOPICS.batch(f"device-{n:05d}", STREAM), batch(first, count, after=first - 1, seed=first + n)
            )
            for n in range(devices)
        ]
    )


def measure_states(url: str) -> tuple[float, float]:
    """Processor seconds for each state of a batch, and bytes of memory for each device of a cohort."""
    now = [float(BEGIN * PERIOD_S)]
    message = policy(period_ms=PERIOD_S * 1000, ticks=TICKS * 1000)
    with opened_cohort(url, message, lambda: now[0]) as (cohort, _):
        seconds = []
        first = BEGIN
        for count in (10, 10, LONG):  # the first time tables are warmed up
            now[0] = float((first + count) * PERIOD_S)
            began = time.process_time()
            _send(cohort, FEW, first, count)
            seconds.append(time.process_time() - began)
            first += count
        before = resident_bytes(os.getpid())
        _send(cohort, 2_000, first, 10)
        cohort.seen_of([f"device-{n:05d}" for n in range(2_000)])
        return max(0.0, (seconds[2] - seconds[1]) / FEW / (LONG - 10)), max(
            0.0, (resident_bytes(os.getpid()) - before) / (2_000 - FEW)
        )


BY_STATE = (
    *("states", "counts", "frequencies", "standard_errors", "intervals", "unbiased", "smoothed"),
    "smoothed_intervals",
)
"""The fields of a release that have an item for each state."""


def release_state_bytes(payload: bytes) -> float:
    """What a further state adds to a release: half of what its two states take."""
    tree = json.loads(payload)
    parts = [json.dumps(tree[name], separators=(",", ":")) for name in BY_STATE if tree.get(name)]
    return sum(map(len, parts)) / 2


def archived_bytes(payloads: Sequence[bytes]) -> float:
    """What a release takes in an archive: of so many, compressed together."""
    return len(gzip.compress(b"\n".join(payloads))) / len(payloads)


def server_pid(db: Connection) -> list[int]:
    """The process of PostgreSQL that serves a connection, where it runs here; none for SQLite."""
    if db.dialect.name == "sqlite":
        return []
    return [int(db.execute(text("SELECT pg_backend_pid()")).scalar_one())]


def table_bytes(db: Connection, name: str) -> int:
    """What a table takes on disk, with its indexes."""
    if db.dialect.name == "sqlite":
        found = db.execute(
            text(
                "SELECT sum(pgsize) FROM dbstat WHERE name = :name OR name IN "
                "(SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = :name)"
            ),
            {"name": name},
        )
    else:
        found = db.execute(text("SELECT pg_total_relation_size(to_regclass(:name))"), {"name": name})
    return int(found.scalar() or 0)
