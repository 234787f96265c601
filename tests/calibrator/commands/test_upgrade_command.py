"""`hushmq calibrator upgrade`: what is due, what was done, and nothing else."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from hushmq.__main__ import main
from hushmq.calibrator.commands.upgrade_command import run
from hushmq.calibrator.store.open_database import open_to_read
from hushmq.calibrator.store.revisions import OURS, Revisions
from tests.calibrator.conftest import Databases
from tests.calibrator.site import sqlite
from tests.calibrator.store import stored
from tests.calibrator.store.later import NEXT, backups, later_revisions, prepared, schema


@pytest.fixture
def later(tmp_path: Path) -> Revisions:
    return later_revisions(tmp_path)


def said(
    capsys: pytest.CaptureFixture[str], url: str, later: Revisions, *, dry_run: bool = False
) -> tuple[int, Any]:
    capsys.readouterr()
    code = run(argparse.Namespace(database=url, config=None, dry_run=dry_run, json=True), revisions=later)
    return code, json.loads(capsys.readouterr().out)


def test_a_dry_run_changes_nothing(
    databases: Databases, later: Revisions, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the revisions that are due, with what they do, and its exit code says that there are some."""
    url = prepared(databases)
    before = schema(url)
    code, found = said(capsys, url, later, dry_run=True)
    assert (code, found["revision"], found["newest"]) == (1, OURS.newest, NEXT)
    assert found["due"] == [{"revision": NEXT, "summary": "Note who read a release"}]
    assert (schema(url), backups(url)) == (before, [])


def test_an_upgrade_says_what_it_did(
    databases: Databases, later: Revisions, capsys: pytest.CaptureFixture[str]
) -> None:
    """The revisions it ran, and on SQLite where the database from before is; the second time there is nothing to do."""
    url = prepared(databases)
    code, found = said(capsys, url, later)
    assert (code, found["revision"], [one["revision"] for one in found["done"]]) == (0, NEXT, [NEXT])
    assert [found["backup"]] == ([str(one) for one in backups(url)] or [None])
    assert said(capsys, url, later, dry_run=True)[0] == 0
    assert said(capsys, url, later)[1]["done"] == []


def test_for_people(databases: Databases, later: Revisions, capsys: pytest.CaptureFixture[str]) -> None:
    """The same in lines."""
    url = prepared(databases)
    for dry_run, words in ((True, "to be upgraded to"), (False, "upgraded to"), (False, "up to date")):
        capsys.readouterr()
        run(argparse.Namespace(database=url, config=None, dry_run=dry_run, json=False), revisions=later)
        text = capsys.readouterr().out
        assert words in text
        assert ("Note who read a release" in text) is (words != "up to date")
        assert ("the database as it was" in text) is (words == "upgraded to" and url.startswith("sqlite"))


def test_with_the_calibrators_file(
    databases: Databases, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A database of release 0.1, by the command itself; then `hushmq ledger` reads it."""
    url = databases.fresh()
    stored.fill(url)
    config = str(stored.write_config(tmp_path, url))
    assert main(["calibrator", "upgrade", "--config", config]) == 0
    assert "revision 0001" in capsys.readouterr().out
    assert main(["calibrator", "upgrade", "--config", config, "--dry-run"]) == 0
    assert capsys.readouterr().out.endswith(f"revision {OURS.newest}, up to date\n")
    open_to_read(url).dispose()


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "does not exist"), (b"", "is empty"), (b"no database\n" * 99, "file is not a database")],
)
def test_what_cannot_be_upgraded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, words: str
) -> None:
    """In words, with exit code 2, and nothing is created."""
    path = tmp_path / "ledger.db"
    if content is not None:
        path.write_bytes(content)
    assert main(["calibrator", "upgrade", "--database", sqlite(tmp_path)]) == 2
    assert words in capsys.readouterr().err
    assert (path.read_bytes() if path.exists() else None) == content
