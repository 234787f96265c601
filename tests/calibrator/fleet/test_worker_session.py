"""Claims on a real PostgreSQL: one worker for each cohort, and none that has lost its claim can write."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, OperationalError

from hushmq.calibrator.fleet.cohort_claims import Peer
from hushmq.calibrator.fleet.cohort_tables import create_cohort
from hushmq.calibrator.fleet.fleet_survey import survey
from hushmq.calibrator.fleet.worker_session import WorkerSession
from hushmq.calibrator.store.cohort_schema import cohort_url
from hushmq.calibrator.store.open_database import open_store
from hushmq.calibrator.store.storage_away import passes
from tests.calibrator.conftest import PostgresDatabases
from tests.calibrator.site import wait_until

COUNT = text("SELECT count(*) FROM policy")
WRITE = text("INSERT INTO policy (version, payload) VALUES (1, '')")


@pytest.fixture
def database(postgres_databases: PostgresDatabases) -> str:
    """A fleet's database with the cohorts a and b."""
    url = postgres_databases.fresh()
    for cohort in ("a", "b"):
        assert create_cohort(url, cohort)
        assert not create_cohort(url, cohort)
    return url


@contextmanager
def session(url: str, name: str = "one", claim_s: float = 30.0) -> Iterator[WorkerSession]:
    found = WorkerSession(url, Peer(name, "pool", "1.0"), claim_s=claim_s)
    try:
        yield found
    finally:
        found.close()


def test_a_cohort_has_one_worker(database: str) -> None:
    """What one session claims no other gets, until it is given up or the session ends."""
    with session(database, "two") as two:
        with session(database) as one:
            assert sorted(one.claim(["a", "b", "none"])) == ["a", "b"]
            assert two.claim(["a", "b"]) == []
            assert {peer.name for peer in two.survey().peers.values()} == {"one", "two"}
            assert set(two.survey().claimants.values()) == {one.survey().me}
            one.release("b")
            assert two.claim(["a", "b"]) == ["b"]
        wait_until(lambda: two.claim(["a"]) == ["a"])
        assert set(survey(database).claimants.values()) == {two.survey().me}


def test_cohorts_do_not_wait_for_each_other(database: str) -> None:
    """While a transaction of one cohort is open, others of the database commit; another of the same cohort waits."""
    with session(database) as one, session(database, "two") as two:
        one.claim(["a"])
        two.claim(["b"])
        command = open_store(cohort_url(database, "a"))
        written = threading.Event()

        def write() -> None:
            with command.begin() as db:
                db.execute(COUNT)
            written.set()

        with one.engine_of("a").begin() as db:
            db.execute(WRITE)
            with two.engine_of("b").begin() as other:
                assert other.execute(COUNT).scalar() == 0
                other.execute(WRITE)
            thread = threading.Thread(target=write)
            thread.start()
            assert not written.wait(0.3)
        thread.join(20)
        assert written.is_set()
        command.dispose()
        with one.engine_of("a").begin() as db:
            assert db.execute(COUNT).scalar() == 1


def test_what_was_given_up_cannot_be_written(database: str) -> None:
    """A transaction of a cohort whose claim the worker has given up is refused, before anything is sent."""
    with session(database) as one:
        one.claim(["a"])
        engine = one.engine_of("a")
        one.release("a")
        with pytest.raises(OperationalError, match="given up"), engine.begin() as db:
            db.execute(WRITE)


@pytest.mark.parametrize("inside", [False, True], ids=["between transactions", "in a transaction"])
def test_a_silent_worker_loses_its_claims_and_can_write_nothing(database: str, *, inside: bool) -> None:
    """The server ends the session of a worker that is silent for longer than its claim: its own clock has told it
    before, another worker has the cohort, and whatever the first tries to write then is refused, for ever."""
    with session(database, claim_s=2.0) as paused, session(database, "two") as two:
        paused.claim(["a"])
        engine = paused.engine_of("a")
        paused._over.set()  # as if it were stopped: no heartbeat
        paused._thread.join()
        certain: list[bool] = []

        def others_have_it() -> bool:
            certain.append(paused.fresh)
            return two.claim(["a"]) == ["a"]

        def write() -> None:
            with engine.begin() as db:
                db.execute(WRITE)

        def write_after_a_pause() -> None:
            with engine.begin() as db:
                db.execute(WRITE)
                wait_until(others_have_it)

        if not inside:
            wait_until(others_have_it)
        with pytest.raises(DBAPIError) as refused:
            (write_after_a_pause if inside else write)()
        assert passes(refused.value), "the worker begins anew, with another session"
        assert not certain[-1], "it knew by its own clock before the server gave the claim to another"
        for _ in range(2):
            with pytest.raises(OperationalError):
                write()
        with two.engine_of("a").begin() as other:
            assert other.execute(COUNT).scalar() == 0


def test_a_worker_that_computes_keeps_its_claims(database: str) -> None:
    """A session on which nothing is asked for longer than `claim_s` is kept awake, in a transaction and outside."""
    with session(database, claim_s=2.0) as one, session(database, "two") as two:
        one.claim(["a"])
        pause = threading.Event()
        assert not pause.wait(3.0)
        with one.engine_of("a").begin() as db:
            db.execute(WRITE)
            assert not pause.wait(3.0)
        assert one.fresh
        assert two.claim(["a"]) == []


def test_sessions_that_a_pooler_shares_are_refused(database: str) -> None:
    """Where another session answers than the one with the claims, nothing is written."""
    with session(database) as one:
        one.claim(["a"])
        one._backend += 1
        with pytest.raises(OperationalError, match="pooler"), one.engine_of("a").begin() as db:
            db.execute(WRITE)
        assert not one.fresh
