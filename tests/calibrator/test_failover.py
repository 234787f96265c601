"""PostgreSQL fails over to a standby: a calibrator that names both servers goes on, and nothing gives budget back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.calibrator.ledger.high_water_mark import read_marks
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import plain_engine
from hushmq.calibrator.store.tick_counts import counted_ticks
from tests.calibrator import postgres
from tests.calibrator.ledger.test_reconcile_ledger import charge, fill, statement
from tests.calibrator.site import START, STREAM, Clock, Desk, desk, wait_until
from tests.calibrator.test_storage_away import watched


@pytest.fixture
def primary() -> Iterator[postgres.Postgres]:
    postgres.require()
    with postgres.running() as server:
        yield server


def either(primary: postgres.Postgres, standby: postgres.Postgres, name: str) -> str:
    """The setting `database` for two servers, of which one writes."""
    hosts = "&".join(f"host=127.0.0.1:{one.port}" for one in (primary, standby))
    return f"postgresql+psycopg://{primary.user}@/{name}?{hosts}&target_session_attrs=read-write"


def entries(here: Desk) -> int:
    with here.engine.begin() as db:
        return int(db.execute(select(func.count()).select_from(store.ledger)).scalar_one())


@pytest.mark.slow
def test_what_a_standby_had_not_received_gives_no_budget_back(
    primary: postgres.Postgres, tmp_path: Path
) -> None:
    """Replication that does not wait: two debits are gone. The mark stops the stream, ops reconcile."""
    name, mark = primary.database(), tmp_path / "mark"
    with postgres.standby_of(primary) as standby:
        url = either(primary, standby, name)
        with desk(url, mark_path=mark) as here:
            here.adopt()
            fill(here, 0)
            wait_until(lambda: standby.replayed(primary))
            standby.stop()
            fill(here, 1, 2)
            assert entries(here) == read_marks(mark)[STREAM].entries == 3
        primary.stop()
        standby.start()
        standby.promote()
        with desk(url, mark_path=mark, clock=Clock(START + 61)) as here:
            assert entries(here) == 1, "as the standby had received it"
            assert STREAM in here.cohort.stopped
            fill(here, 3)
            assert entries(here) == 1, "nothing is charged"
            charge(here, mark, statement(here, mark))
            assert here.cohort.resume()
            here.cohort.calibrate()
            fill(here, 4, noise=2)
            assert here.cohort.stopped == {}
            assert entries(here) > 1


@pytest.mark.slow
def test_a_standby_that_is_waited_for_loses_nothing(
    primary: postgres.Postgres, nats: BrokerProcess, tmp_path: Path
) -> None:
    """Replication that waits: the primary is killed, the standby promoted: all that was counted is there."""
    name = primary.database()
    with primary.connect() as db:
        db.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    with postgres.standby_of(primary) as standby:
        with primary.connect() as db:
            db.execute("SELECT pg_reload_conf()")
        wait_until(lambda: _waited_for(primary))
        with watched(tmp_path, nats, database=either(primary, standby, name)) as here:
            last = here.send()
            wait_until(lambda: here.counted(last))
            here.survives(primary.stop, lambda: _take_over(standby), "")
        with plain_engine(standby.url(name)).connect() as stored:
            assert counted_ticks(stored) == {("wearable-1", STREAM): 30}, "what it had counted before, too"


def _waited_for(primary: postgres.Postgres) -> bool:
    with primary.connect() as db:
        found = db.execute("SELECT sync_state FROM pg_stat_replication").fetchall()
    return found == [("sync",)]


def _take_over(standby: postgres.Postgres) -> None:
    """Promote a standby, which waits for none itself."""
    standby.promote()
    with standby.connect() as db:
        db.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
        db.execute("SELECT pg_reload_conf()")
