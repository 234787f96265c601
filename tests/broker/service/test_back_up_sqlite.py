"""A copy of a SQLite database is complete or absent, is never overwritten, and is as private as the database."""

from __future__ import annotations

import resource
import signal
import sqlite3
from pathlib import Path

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.broker.service.back_up_sqlite import back_up
from tests.child import in_child


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "some.db"
    db = sqlite3.connect(path)
    db.executescript(
        "PRAGMA journal_mode = WAL; CREATE TABLE one (value BLOB); INSERT INTO one VALUES (zeroblob(99999))"
    )
    db.close()
    return path


def copied(path: Path) -> Path:
    return back_up(path, "before-2", setting="database")


def beside(path: Path) -> list[str]:
    return sorted(one.name for one in path.parent.iterdir() if one.name.startswith("some.db."))


def change(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("INSERT INTO one VALUES ('more')")
    db.commit()
    db.close()


def test_it_is_what_is_committed(database: Path) -> None:
    """The copy has the pages of the write-ahead log, nothing of an open transaction, and the same owner and mode."""
    database.chmod(0o640)
    writer = sqlite3.connect(database, isolation_level=None)
    writer.execute("INSERT INTO one VALUES ('committed')")
    writer.execute("BEGIN IMMEDIATE")
    copy = copied(database)
    writer.execute("INSERT INTO one VALUES ('not yet')")
    assert copied(database) == copy
    writer.execute("ROLLBACK")
    writer.close()
    db = sqlite3.connect(copy)
    assert db.execute("SELECT count(*), max(value = 'committed') FROM one").fetchone() == (2, 1)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    assert copy == database.with_name("some.db.before-2")
    assert (copy.stat().st_mode & 0o777, copy.stat().st_uid) == (0o640, database.stat().st_uid)


def test_it_is_never_overwritten_and_never_kept_twice(database: Path) -> None:
    """An equal copy is reused; a different one gets the next number."""
    first = copied(database)
    kept = first.read_bytes()
    assert copied(database) == first
    change(database)
    second = copied(database)
    assert second.name == "some.db.before-2.2"
    assert copied(database) == second
    assert first.read_bytes() == kept
    assert beside(database) == [first.name, second.name]


def test_what_an_interrupted_copy_left_is_replaced(database: Path) -> None:
    """A partial copy has another name, and the next copy replaces it."""
    for name in ("some.db.before-2.part", "some.db.before-2.part-journal"):
        database.with_name(name).write_bytes(b"half")
    assert copied(database).name == "some.db.before-2"
    assert beside(database) == ["some.db.before-2"]


def test_on_a_full_disk_there_is_none(database: Path) -> None:
    """The message names the setting and the file, and no partial copy remains."""

    def fills_up() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
        with pytest.raises(
            Problem, match=r"^database: .*some\.db cannot be backed up .*; nothing was changed"
        ):
            copied(database)

    assert in_child(fills_up) == 0
    assert beside(database) == []
