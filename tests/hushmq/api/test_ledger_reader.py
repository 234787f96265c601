"""A ledger opened by a program: the numbers of `hushmq ledger`, and nothing written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from hushmq import BinaryTheta, Ledger, Problem
from hushmq.__main__ import main
from tests.calibrator.site import STREAM, desk, policy, sqlite


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A ledger of three windows, with its high-water mark beside it."""
    with desk(sqlite(tmp_path), mark_path=tmp_path / "ledger.db.mark") as here:
        here.adopt(policy())
        for number in range(3):
            here.window(number)
            here.cohort.close_due()
    return tmp_path / "ledger.db"


def test_it_says_what_the_command_says(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Accounts and charges are those of `hushmq ledger show`."""
    assert main(["ledger", "show", "--database", f"sqlite:///{database}", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)[STREAM]
    with Ledger(database) as ledger:
        assert ledger.streams() == [STREAM]
        accounts = ledger.accounts(STREAM)
        for audience in ("operator", "public"):
            account = getattr(accounts, audience)
            assert {
                "budget": account.budget,
                "loss": account.loss,
                "left": account.left,
                "undecided": account.undecided,
            } == shown[audience]
            assert account.undecided > account.loss
        assert accounts.adversary == shown["adversary"] == "prior"
        assert isinstance(accounts.theta, BinaryTheta)
        entries = ledger.entries(STREAM)
        assert [(one.id, one.first, one.last) for one in entries] == [
            (one["id"], one["first"], one["last"]) for one in shown["entries"]
        ]
        assert [one.tilt for one in entries] == [one["tilt"] / 1e9 for one in shown["entries"]]


def test_a_right_ledger_passes_every_check(database: Path) -> None:
    """The high-water mark beside a SQLite file is compared as well."""
    with Ledger(f"sqlite:///{database}") as ledger:
        checks = ledger.verify()
    assert all(check.passed for check in checks)
    assert "reaches the high-water mark" in {check.name for check in checks}


def test_a_change_is_found(database: Path) -> None:
    """An entry made cheaper afterwards fails a check."""
    engine = create_engine(f"sqlite:///{database}")
    with engine.begin() as db:
        db.exec_driver_sql("UPDATE ledger SET tilt = tilt - 1 WHERE id = 2")
    engine.dispose()
    with Ledger(database) as ledger:
        assert "entries as they were written" in {one.name for one in ledger.verify() if not one.passed}


def test_nothing_is_written(database: Path) -> None:
    """Reading everything leaves the file as it was."""
    before = database.read_bytes()
    with Ledger(database) as ledger:
        ledger.accounts(STREAM)
        ledger.verify()
    assert database.read_bytes() == before


def test_what_a_person_can_mend_is_a_problem(database: Path, tmp_path: Path) -> None:
    """No such file, no ledger, no such stream."""
    with pytest.raises(Problem, match="does not exist"):
        Ledger(tmp_path / "none.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(Problem, match="holds no ledger"):
        Ledger(tmp_path / "empty.db")
    with (
        Ledger(database) as ledger,
        pytest.raises(Problem, match=f"'door' is not in the ledger; there are {STREAM}"),
    ):
        ledger.accounts("door")


def test_a_missing_library_is_named() -> None:
    """The name can be imported on a device; a ledger cannot be opened there, and one line says why."""
    code = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "from hushmq import Ledger, Problem\n"
        "try: Ledger('x.db')\nexcept Problem as problem: print(problem)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        done.stdout == "Ledger needs sqlalchemy, which is not installed: pip install 'hushmq[calibrator]'\n"
    )
