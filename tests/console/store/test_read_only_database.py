"""The console cannot write to the calibrator's database, whatever it tries."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import delete, insert, select, text

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.store import tables as store
from hushmq.console.store.read_only_database import ReadOnlyDatabase
from tests.calibrator.conftest import Databases
from tests.calibrator.site import desk

REFUSED = "readonly database|read-only transaction"
"""What SQLite and PostgreSQL say."""


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    """It is not made by looking for it, and found once the calibrator has made it."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    database = ReadOnlyDatabase(url)
    with pytest.raises(Problem, match="does not exist"):
        database.read_here(lambda db: db.execute(select(store.policy)).all())
    with desk(url):
        assert database.read_here(lambda db: db.execute(select(store.policy)).all()) == []
    database.close()


def test_nothing_can_be_written(databases: Databases) -> None:
    """The database itself refuses it, on every connection; what a calibrator writes meanwhile is seen."""
    url = databases.fresh()
    with desk(url) as here:
        database = ReadOnlyDatabase(url)
        assert database.read_here(lambda db: db.execute(select(store.policy)).all()) == []
        here.adopt()
        found = database.read_here(lambda db: db.execute(select(store.policy)).all())
        assert len(found) == 1
        for write in (
            delete(store.policy),
            insert(store.quarantine).values(device="d", reason="r", strikes=1, until=1.0),
            text("CREATE TABLE mine (one INTEGER)"),
        ):
            with pytest.raises(Problem, match=REFUSED):
                database.read_here(lambda db, write=write: db.execute(write))
            assert database.read_here(lambda db: db.execute(select(store.policy)).all()) == found
        database.close()
