"""A commit is on disk, a writer waits for the other, and a bad URL is told in words."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from sqlalchemy import insert, select, text
from sqlalchemy.exc import IntegrityError

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import open_store, sqlite_url
from tests.calibrator.site import sqlite


def test_sqlite_commits_reach_the_disk(tmp_path: Path) -> None:
    """WAL with synchronous=FULL: what is committed survives a power cut."""
    engine = open_store(sqlite(tmp_path))
    with engine.begin() as db:
        assert db.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert db.execute(text("PRAGMA synchronous")).scalar() == 2
        assert db.execute(text("PRAGMA foreign_keys")).scalar() == 1
    engine.dispose()


def test_a_second_writer_waits_and_sees_what_the_first_wrote(tmp_path: Path) -> None:
    """Reading and spending are one: nobody reads a budget while another transaction is spending it."""
    engine = open_store(sqlite(tmp_path))
    seen: list[int] = []

    def spend() -> None:
        other = open_store(sqlite(tmp_path))
        with other.begin() as db:
            seen.append(len(db.execute(select(store.policy)).all()))
        other.dispose()

    with engine.begin() as db:
        thread = threading.Thread(target=spend)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        db.execute(insert(store.policy).values(version=1, payload=b""))
    thread.join(10)
    engine.dispose()
    assert seen == [1]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "sqlite:////var/lib/hushmq/ledger.db"),
        ("oracle9://x/y", "cannot be used"),
        ("sqlite:////dev/null/at/all/ledger.db", "Not a directory"),
    ],
)
def test_a_bad_url_is_told_in_words(url: str, words: str) -> None:
    """The message names the setting and what would be right, or why it cannot be opened."""
    with pytest.raises(Problem, match="database: ") as problem:
        open_store(url)
    assert words in str(problem.value)


def test_a_password_in_the_url_is_not_shown() -> None:
    """A URL that fails is told without its password."""
    with pytest.raises(Problem) as problem:
        open_store("postgresql+psycopg://me:hidden-word@127.0.0.1:1/none")
    assert "hidden-word" not in str(problem.value)


def test_an_error_does_not_repeat_what_was_to_be_written(tmp_path: Path) -> None:
    """Sums that wait for their noise are in no exception's text."""
    engine = open_store(sqlite(tmp_path))
    row = {
        "stream": "s",
        "device": "d",
        "noise": 1,
        "ticks": 9,
        "starts": "[]",
        "groups": "[[4711]]",
        "tilt": 1,
    }
    with pytest.raises(IntegrityError) as error, engine.begin() as db:
        db.execute(insert(store.pending), [row, row])
    engine.dispose()
    assert "4711" not in f"{error.value!s}{error.value!r}"


def test_a_database_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Its folder is made with mode 700 and its files with mode 600, and a database left open to others is closed."""
    path = tmp_path / "data" / "ledger.db"
    open_store(sqlite_url(path)).dispose()
    path.chmod(0o644)
    engine = open_store(sqlite_url(path))
    with engine.begin() as db:
        db.execute(insert(store.policy).values(version=1, payload=b""))
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    engine.dispose()
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert set(modes) == {"ledger.db", "ledger.db-wal", "ledger.db-shm"}
    assert set(modes.values()) == {0o600}
