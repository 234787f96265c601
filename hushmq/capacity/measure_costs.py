"""Measures all unit costs on this machine: about a minute, in a temporary folder."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.provision.mosquitto import MosquittoServer
from hushmq.broker.provision.mosquitto import executable as mosquitto
from hushmq.broker.provision.nats import NatsServer
from hushmq.calibrator.fleet.cohort_tables import create_cohort
from hushmq.calibrator.store.cohort_schema import cohort_url, is_postgres, schema_of
from hushmq.calibrator.store.open_database import plain_engine, reading, sqlite_url
from hushmq.capacity.measure_site import SiteCosts, measure_site
from hushmq.capacity.measure_windows import measure_states, measure_windows, release_state_bytes
from hushmq.capacity.process_usage import check_system, processor_name
from hushmq.capacity.unit_costs import BrokerCosts, DatabaseCosts, Machine, UnitCosts

Progress = Callable[[float], None]
Databases = Callable[[str], str]
"""The URL of a new database, by a name."""


def measure_costs(postgres: str | None, progress: Progress) -> UnitCosts:
    """Measure brokers and databases; Problem where something that is needed is not here."""
    check_system()
    if postgres is not None and not is_postgres(postgres):
        raise Problem(
            "--postgres: give the URL of a database of PostgreSQL: postgresql+psycopg://user@host/name"
        )
    kinds: dict[str, type[BrokerProcess]] = {"nats": NatsServer}
    if _has_mosquitto():
        kinds["mosquitto"] = MosquittoServer
    steps = len(kinds) + (2 if postgres else 0) + 1
    done = 0

    def part(share: float) -> None:
        progress(min(0.99, (done + share) / steps))

    with tempfile.TemporaryDirectory(prefix="hushmq-capacity-") as name:
        folder = Path(name)
        sites: dict[str, SiteCosts] = {}
        for kind, server in kinds.items():
            here = folder / kind
            here.mkdir()
            sites[kind] = measure_site(server, here, sqlite_url(here / "ledger.db"), part)
            done += 1
        databases = {"sqlite": _database(sites["nats"], lambda one: sqlite_url(folder / f"{one}.db"))}
        done += 1
        part(0.0)
        if postgres is not None:
            with _schemas(postgres) as fresh:
                here = folder / "postgres"
                here.mkdir()
                site = measure_site(NatsServer, here, fresh("site"), part)
                done += 1
                databases["postgresql"] = _database(site, fresh)
        state_s, device_memory = measure_states(sqlite_url(folder / "states.db"))
        archived = measure_windows((sqlite_url(folder / "few.db"), sqlite_url(folder / "many.db")), "device")
    progress(1.0)
    return UnitCosts(
        machine=_machine(),
        databases={name: _with_state(one, state_s) for name, one in databases.items()},
        brokers={kind: BrokerCosts(one.broker_s, one.connection_bytes) for kind, one in sites.items()},
        worker_bytes=sites["nats"].worker_bytes,
        device_memory_bytes=device_memory,
        archived_share=archived.archived_bytes / archived.release_bytes,
    )


def _has_mosquitto() -> bool:
    try:
        mosquitto()
    except Problem:
        return False
    return True


def _database(site: SiteCosts, fresh: Databases) -> DatabaseCosts:
    cohort = measure_windows((fresh("cohort-few"), fresh("cohort-many")), "cohort")
    each = measure_windows((fresh("device-few"), fresh("device-many")), "device")
    return DatabaseCosts(
        batch_s=site.calibrator_s,
        turn_s=site.calibrator_turn_s,
        server_batch_s=site.server_s,
        server_turn_s=site.server_turn_s,
        state_s=0.0,
        window_s=cohort.window_s,
        window_device_s=cohort.device_s,
        release_s=each.device_s,
        server_release_s=each.server_device_s,
        entry_bytes=each.entry_bytes,
        release_bytes=each.release_bytes,
        release_state_bytes=release_state_bytes(each.release_payload),
        batch_bytes=each.batch_bytes,
        device_bytes=each.device_bytes,
    )


def _with_state(one: DatabaseCosts, state_s: float) -> DatabaseCosts:
    return replace(one, state_s=state_s)


@contextmanager
def _schemas(url: str) -> Iterator[Databases]:
    """Schemas in a database of PostgreSQL, which are removed at the end."""
    made: list[str] = []

    def fresh(name: str) -> str:
        cohort = f"capacity-{os.getpid()}-{name}"
        made.append(cohort)
        create_cohort(url, cohort, reopening=False)
        return cohort_url(url, cohort)

    try:
        yield fresh
    except SQLAlchemyError as error:
        raise Problem(f"--postgres: {str(error).splitlines()[0]}") from None
    finally:
        with reading(plain_engine(url)) as db:
            for cohort in made:
                db.execute(text(f'DROP SCHEMA IF EXISTS "{schema_of(cohort)}" CASCADE'))
            db.commit()


def _machine() -> Machine:
    return Machine(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        processor=processor_name(),
        cores=os.cpu_count() or 1,
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        hushmq=version("hushmq"),
    )
