"""A database that goes away: the calibrator waits, says so once, counts nothing unwritten, and goes on by itself."""

from __future__ import annotations

import io
import json
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event, insert
from sqlalchemy.exc import OperationalError

from hushmq.broker.provision.broker_process import BrokerProcess, free_port
from hushmq.broker.service.log import logger
from hushmq.broker.service.systemd import Systemd
from hushmq.calibrator import run_calibrator
from hushmq.calibrator.calibrator_config import load
from hushmq.calibrator.ledger import high_water_mark
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import open_store
from hushmq.calibrator.store.storage_away import StorageAway, passes
from tests.calibrator import postgres
from tests.calibrator.running import Client, process, write_config
from tests.calibrator.site import START, STREAM, TOPICS, batch, desk, policy, signed, sqlite, wait_until

POLICY = policy(period_ms=10, windows={})
IMPATIENT = """
import hushmq.calibrator.store.open_database as o, hushmq.calibrator.run_calibrator as r
o.BUSY_MS, r.SHORTEST_S, r.LONGEST_S = 200, 0.1, 0.2
"""


class Watched:
    """A calibrator that runs: batches that are sent to it, what it says in its log, and its health."""

    def __init__(self, ops: Client, broker: BrokerProcess, folder: Path, port: int) -> None:
        self._ops, self._broker, self._folder, self._port = ops, broker, folder, port
        self._next = int(time.time() * 1000) // 10

    def send(self) -> int:
        """Ten ticks of a device; returns the last."""
        first, self._next = self._next, self._next + 10
        with Client(self._broker, "wearable-1") as device:
            device.say(TOPICS.batch("wearable-1", STREAM), batch(first, [0, 1] * 5))
        return first + 9

    def counted(self, tick: int) -> bool:
        seen = self._ops.seen("wearable-1")
        return seen is not None and STREAM in seen.streams and seen.streams[STREAM].highest >= tick

    def said(self, name: str) -> list[str]:
        lines = (self._folder / "log").read_text().splitlines()
        return [one.get("why", "") for one in map(json.loads, lines) if one["event"] == name]

    def health(self) -> list[str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/health", timeout=5) as answer:
                return list(json.load(answer)["wrong"])
        except urllib.error.HTTPError as error:
            return list(json.load(error)["wrong"])
        except OSError:
            return []

    def survives(self, take_away: Callable[[], None], give_back: Callable[[], None], words: str) -> None:
        """Storage goes away and comes back: said once with these words, nothing seen meanwhile, all counted after."""
        before = len(self.said("storage_away")), len(self.said("storage_back"))
        wait_until(lambda: not self.health())
        take_away()
        last = self.send()
        wait_until(lambda: len(self.said("storage_away")) > before[0])
        wait_until(lambda: any("waiting" in one for one in self.health()))
        assert not self.counted(last)
        give_back()
        wait_until(lambda: self.counted(last))
        wait_until(lambda: len(self.said("storage_back")) > before[1])
        assert words in self.said("storage_away")[before[0]]
        assert len(self.said("storage_away")) == before[0] + 1


@contextmanager
def watched(folder: Path, broker: BrokerProcess, database: str | None = None) -> Iterator[Watched]:
    port = free_port("127.0.0.1")
    sections = f'[metrics]\nport = {port}\n[log]\nform = "json"\n'
    config = write_config(folder, broker, database=database, sections=sections)
    with Client(broker, "ops", TOPICS.all("seen"), TOPICS.all("noise")) as ops:
        ops.say(TOPICS.policy, signed(POLICY), retain=True)
        with process(config, code=IMPATIENT, log=folder / "log") as child:
            ops.wait_for_setting()
            here = Watched(ops, broker, folder, port)
            last = here.send()
            wait_until(lambda: here.counted(last))
            yield here
            assert child.poll() is None


@pytest.mark.slow
def test_sqlite_that_is_locked_or_gone(nats: BrokerProcess, tmp_path: Path) -> None:
    """Locked by another process, moved away and back: each is waited for."""
    path = tmp_path / "ledger.db"
    away = tmp_path / "away"
    away.mkdir()

    def move(source: Path, target: Path) -> None:
        for suffix in ("-wal", "-shm", ""):
            if (part := source / f"ledger.db{suffix}").exists():
                part.rename(target / part.name)

    with watched(tmp_path, nats) as here:
        other = sqlite3.connect(path, isolation_level=None)
        here.survives(
            lambda: other.execute("BEGIN IMMEDIATE") and None,
            lambda: other.execute("ROLLBACK") and None,
            "locked",
        )
        other.close()
        here.survives(lambda: move(tmp_path, away), lambda: move(away, tmp_path), "removed or replaced")


@pytest.mark.slow
def test_postgres_restarted_read_only_or_out_of_connections(nats: BrokerProcess, tmp_path: Path) -> None:
    """A server that is killed and comes back, that only reads, that lets nobody in: each is waited for."""
    postgres.require()
    with postgres.running() as server:
        name = server.database()
        others: list[psycopg.Connection[tuple[object, ...]]] = []

        def settle(statement: str) -> None:
            with server.connect() as db:
                db.execute(statement)
                db.execute("SELECT pg_reload_conf()")

        def crowd() -> None:
            keep = server.connect()
            others.append(keep)
            for _ in range(200):
                try:
                    others.append(server.connect())
                except psycopg.OperationalError:
                    break
            keep.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            wait_until(lambda: _try_to_join(server, others))

        def leave() -> None:
            for one in others:
                one.close()

        with watched(tmp_path, nats, database=server.url(name)) as here:
            here.survives(server.stop, server.start, "")
            here.survives(
                lambda: settle("ALTER SYSTEM SET default_transaction_read_only = on"),
                lambda: settle("ALTER SYSTEM SET default_transaction_read_only = off"),
                "read-only",
            )
            here.survives(crowd, leave, "")


def _try_to_join(server: postgres.Postgres, others: list[psycopg.Connection[tuple[object, ...]]]) -> bool:
    """Take one more connection; True when there is none."""
    try:
        others.append(server.connect())
    except psycopg.OperationalError:
        return True
    return False


def test_a_full_disk_passes_and_a_wrong_statement_does_not(tmp_path: Path) -> None:
    """What SQLite says when its file may not grow is waited for; a mistake of ours is not."""
    engine = open_store(sqlite(tmp_path))
    event.listen(engine, "begin", lambda db: db.exec_driver_sql("PRAGMA max_page_count = 1"))
    with pytest.raises(OperationalError, match="full") as full, engine.begin() as db:
        db.execute(insert(store.policy), [{"version": one, "payload": bytes(4000)} for one in range(100)])
    assert passes(full.value)
    with pytest.raises(Exception, match="NOT NULL") as wrong, engine.begin() as db:
        db.exec_driver_sql("INSERT INTO policy (version) VALUES (1)")
    assert not passes(wrong.value)  # type: ignore[arg-type]
    engine.dispose()


def test_a_mark_that_cannot_be_written_holds_everything_back(tmp_path: Path) -> None:
    """A debit is durable and its mark is not: nothing of it is published, and the next start writes the mark first."""
    marks = tmp_path / "marks" / "mark"
    marks.parent.mkdir()
    with desk(sqlite(tmp_path), mark_path=marks) as here:
        here.adopt()
        here.window()
        marks.unlink()
        marks.parent.rmdir()
        with pytest.raises(StorageAway, match="mark_file"):
            here.cohort.close_due()
    with pytest.raises(StorageAway, match="mark_file"), desk(sqlite(tmp_path), mark_path=marks):
        pass
    marks.parent.mkdir()
    with desk(sqlite(tmp_path), mark_path=marks) as here:
        assert high_water_mark.read_marks(marks)[STREAM].entries == 1
        assert here.cohort.unsent()


def test_the_mark_of_a_stopped_stream_outlives_the_debits_of_others(tmp_path: Path) -> None:
    """Writing the marks of other streams must not replace the one that shows that a ledger is an old one."""
    path = tmp_path / "mark"
    high = high_water_mark.HighWaterMark(7, "a" * 64)
    high_water_mark.write_marks(path, {STREAM: high})
    with desk(sqlite(tmp_path), mark_path=path) as here:
        here.adopt()
        assert STREAM in here.cohort.stopped
        here.clock.tick = START + 50
    with desk(sqlite(tmp_path), mark_path=path) as here:
        assert STREAM in here.cohort.stopped
    assert high_water_mark.read_marks(path) == {STREAM: high}


def test_an_empty_file_is_not_made_where_the_database_was(tmp_path: Path) -> None:
    """A database that is not there any more is not replaced by an empty one, which would give budget back."""
    url = sqlite(tmp_path)
    with pytest.raises(StorageAway, match="not there any more"):
        open_store(url, reopening=True)
    assert not (tmp_path / "ledger.db").exists()


def test_a_server_that_is_not_there_at_the_start_is_waited_for(
    nats: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd hears that the calibrator waits, and what for; a stop ends the wait."""
    monkeypatch.setattr(run_calibrator, "SHORTEST_S", 0.02)
    told: list[str] = []
    systemd = Systemd({})
    monkeypatch.setattr(systemd, "notify", told.append)
    nowhere = f"postgresql+psycopg://me:hidden-word@127.0.0.1:{free_port('127.0.0.1')}/none"
    config = load(write_config(tmp_path, nats, database=nowhere))
    log = io.StringIO()
    one = run_calibrator.Calibrator(
        config,
        start=run_calibrator.StartDaemon(lambda: config),
        load=lambda: config,
        logger_of=lambda _: logger("info", "json", log),
        systemd=systemd,
    )
    thread = threading.Thread(target=one.run)
    thread.start()
    wait_until(lambda: len(told) > 3)
    one.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert told[0].startswith("STATUS=waiting: database: ")
    assert [line for line in told if line.startswith("STATUS=")] == told[:1]
    assert log.getvalue().count("storage_away") == 1
    assert "hidden-word" not in log.getvalue() + "".join(told)
