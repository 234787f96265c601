"""An outbox of release 0.1 or later is upgraded completely or not at all; no tick is lost or used twice."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hushmq.__main__ import main
from hushmq.agent.storage import outbox as outbox_module
from hushmq.agent.storage.outbox import MadeBatch, Outbox
from hushmq.agent.storage.outbox_versions import STEPS, Step, upgrade, version_of
from hushmq.broker.contract.messages import Counted
from hushmq.broker.contract.problem import Problem
from hushmq.broker.service import back_up_sqlite
from tests.agent.peer import write_config
from tests.child import in_child

STORED = Path(__file__).parent / "stored"
NEXT = len(STEPS) + 1
REWRITES = Step(
    (
        "ALTER TABLE batch RENAME TO batch_before",
        "CREATE TABLE batch (id INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, first INTEGER NOT NULL,"
        " last INTEGER NOT NULL, made_ms INTEGER NOT NULL, payload BLOB NOT NULL, tries INTEGER NOT NULL DEFAULT 0)",
        "INSERT INTO batch (id, stream, first, last, made_ms, payload) SELECT * FROM batch_before",
        "DROP TABLE batch_before",
        "CREATE INDEX batch_by_tick ON batch (stream, last)",
    ),
    rewrites=True,
)
"""A step that does not exist."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return stored(tmp_path / "agent")


def stored(folder: Path) -> Path:
    """The folder of an agent of release 0.1 that was killed."""
    folder.mkdir()
    db = sqlite3.connect(folder / "outbox.db")
    db.executescript((STORED / "outbox-0.1.sql").read_text())
    db.close()
    for name in ("mark", "mark.0", "mark.1"):
        shutil.copy(STORED / f"outbox-0.1.{name}", folder / name)
    return folder


def opened(folder: Path) -> Outbox:
    return Outbox(folder, max_bytes=900, max_age_s=10**6)


def account(outbox: Outbox, stream: str) -> tuple[int, int, int, int]:
    balance = outbox.balances[stream]
    return balance.watermark, balance.sampled, balance.buffered, balance.dropped


def schema(path: Path) -> list[Any]:
    db = sqlite3.connect(path)
    found = db.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
    db.close()
    return found


def rows(path: Path) -> dict[str, list[Any]]:
    db = sqlite3.connect(path)
    found = {
        "batch": db.execute(
            "SELECT id, stream, first, last, made_ms, payload FROM batch ORDER BY id"
        ).fetchall(),
        "stream": db.execute("SELECT * FROM stream ORDER BY name").fetchall(),
        "release": db.execute("SELECT * FROM release ORDER BY first").fetchall(),
        "lost": db.execute("SELECT * FROM lost ORDER BY stream, first").fetchall(),
    }
    db.close()
    return found


def version(path: Path) -> int:
    db = sqlite3.connect(path)
    found = version_of(db)
    db.close()
    return found


def test_an_outbox_of_release_0_1_loses_nothing(folder: Path) -> None:
    """Balances, waiting batches, lost ticks and releases are unchanged after the upgrade; then the outbox works."""
    before = rows(folder / "outbox.db")
    outbox = opened(folder)
    assert outbox.set_aside is None
    assert version(folder / "outbox.db") == len(STEPS)
    assert rows(folder / "outbox.db") == before
    accounts = {
        name: (balance.watermark, balance.sampled, balance.buffered, balance.dropped)
        for name, balance in outbox.balances.items()
    }
    assert accounts == {"motion": (1049, 50, 20, 25), "door": (29, 4, 2, 2)}
    assert [(one.id, one.stream) for one in outbox.page(0, 99)] == [row[:2] for row in before["batch"]]
    assert outbox.releases.released == {("motion", "own"): (1030, 4)}
    assert list(outbox.releases.unsent) == [("motion", "own", first) for first in (1010, 1020, 1030)]
    with pytest.raises(RuntimeError, match="used tick"):
        outbox.commit([MadeBatch("motion", 1049, 1053, b"z")], periods={"motion": 1000}, seen={}, now_ms=0)
    outbox.commit(
        [MadeBatch("motion", 1050, 1054, b"z")],
        periods={"motion": 1000},
        seen={"motion": Counted(highest=1049, holes=((1000, 1004),))},
        now_ms=1_050_000,
    )
    assert account(outbox, "motion") == (1054, 55, 5, 5)
    outbox.close()


def test_the_first_step_makes_the_tables_of_release_0_1(folder: Path, tmp_path: Path) -> None:
    """The first step is never edited: changing a table means adding a step."""
    db = sqlite3.connect(tmp_path / "new.db", isolation_level=None)
    assert upgrade(db, tmp_path / "new.db", STEPS[:1]) is None
    db.close()
    assert schema(tmp_path / "new.db") == schema(folder / "outbox.db")


def test_an_upgraded_outbox_has_the_tables_of_a_new_one(folder: Path, tmp_path: Path) -> None:
    opened(folder).close()
    (tmp_path / "new").mkdir()
    opened(tmp_path / "new").close()
    assert schema(folder / "outbox.db") == schema(tmp_path / "new" / "outbox.db")
    assert version(tmp_path / "new" / "outbox.db") == len(STEPS)


def test_a_newer_outbox_is_refused_and_left_alone(folder: Path) -> None:
    """The refusal is a Problem about the folder; neither the file nor the marks change."""
    opened(folder).close()
    db = sqlite3.connect(folder / "outbox.db")
    db.execute("PRAGMA user_version = 99")
    db.close()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(
        Problem,
        match=rf"^folder: .*outbox\.db was written by a newer .*version 99.* up to {len(STEPS)}: install",
    ):
        opened(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name in before} == before


def test_the_agent_refuses_a_newer_outbox(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The agent exits with code 2 and one line."""
    config = write_config(tmp_path)
    (tmp_path / "state").mkdir(mode=0o700)
    db = sqlite3.connect(tmp_path / "state" / "outbox.db")
    db.execute("PRAGMA user_version = 99")
    db.close()
    assert main(["agent", "run", "--config", str(config)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "was written by a newer version of hushmq (outbox version 99)" in line


def test_a_step_that_rewrites_leaves_a_copy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy holds the old content and is as private as the file; a new outbox gets no copy."""
    opened(folder).close()
    (folder / "outbox.db").chmod(0o600)
    before, tables = rows(folder / "outbox.db"), schema(folder / "outbox.db")
    monkeypatch.setattr(outbox_module, "STEPS", (*STEPS, REWRITES))
    outbox = opened(folder)
    copy = folder / f"outbox.db.before-{NEXT}"
    assert outbox.backup == copy
    outbox.close()
    assert copy.stat().st_mode & 0o777 == 0o600
    assert (rows(copy), schema(copy)) == (before, tables)
    assert rows(folder / "outbox.db") == before
    assert version(folder / "outbox.db") == NEXT
    assert opened(folder).backup is None
    (folder / "new").mkdir()
    assert opened(folder / "new").backup is None


def test_a_copy_that_is_put_back_uses_no_tick_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark records the ticks used since; those missing in the copy are counted as dropped."""
    with monkeypatch.context() as newer:
        newer.setattr(outbox_module, "STEPS", (*STEPS, REWRITES))
        outbox = opened(folder)
        outbox.commit(
            [MadeBatch("motion", 1050, 1054, b"z")], periods={"motion": 1000}, seen={}, now_ms=1_050_000
        )
        copy = outbox.backup
        assert copy is not None
        outbox.close()
    copy.replace(folder / "outbox.db")
    balance = opened(folder).balances["motion"]
    assert balance.watermark >= 1054
    assert balance.sampled == 55


def killed_at(folder: Path, step: int) -> int:
    """Open the outbox in a process that kills itself at its n-th step: a statement, or a part of the copy."""

    def count(*_: object) -> None:
        nonlocal step
        step -= 1
        if step == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            count()
            found = call(*args)
            count()
            return found

        return called

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        db = connect_(*args, **options)
        db.set_trace_callback(count)
        return db

    connect_ = sqlite3.connect

    def work() -> None:
        outbox_module.STEPS = (*STEPS, REWRITES)
        sqlite3.connect = connect  # type: ignore[assignment]
        for name in ("_copy", "_keep", "_sync"):
            setattr(back_up_sqlite, name, counted(getattr(back_up_sqlite, name)))
        opened(folder).close()

    return in_child(work)


@pytest.mark.slow
def test_killed_at_every_step_it_is_old_or_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables, rows and version are those before or after the upgrade; the next start completes it, with one copy."""
    monkeypatch.setattr(outbox_module, "STEPS", (*STEPS, REWRITES))
    before = rows(stored(tmp_path / "first") / "outbox.db")
    tables = schema(tmp_path / "first" / "outbox.db")
    at = ended = 0
    while ended == 0 and at < 200:
        at += 1
        folder = stored(tmp_path / f"run-{at}")
        ended = killed_at(folder, at) == 0
        path = folder / "outbox.db"
        assert rows(path) == before, f"step {at}"
        if version(path) != NEXT:
            assert (version(path), schema(path)) == (0, tables), f"step {at}"
        outbox = opened(folder)
        assert outbox.set_aside is None
        assert outbox.balances["motion"].watermark == 1049
        outbox.close()
        assert (version(path), rows(path)) == (NEXT, before)
        assert [one.name for one in folder.glob("outbox.db.*")] == [f"outbox.db.before-{NEXT}"], f"step {at}"
        assert rows(folder / f"outbox.db.before-{NEXT}") == before
    assert 20 < at < 200


def test_a_full_disk_stops_the_upgrade_and_nothing_changes(folder: Path) -> None:
    """Without space for the copy there is no upgrade, and a Problem about the folder is raised."""
    path = folder / "outbox.db"
    outbox = Outbox(folder, max_bytes=10**6, max_age_s=10**6)
    outbox.commit(
        [MadeBatch("motion", 1050, 1050, b"z" * 200_000)], periods={"motion": 1000}, seen={}, now_ms=0
    )
    outbox.close()
    before = path.read_bytes()

    def fills_up() -> None:
        outbox_module.STEPS = (*STEPS, REWRITES)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size // 2, resource.RLIM_INFINITY))
        with pytest.raises(
            Problem, match=r"^folder: .*outbox\.db cannot be backed up .*; nothing was changed"
        ):
            opened(folder)

    assert in_child(fills_up) == 0
    assert path.read_bytes() == before
    assert list(folder.glob("outbox.db.*")) == []
    assert version(path) == len(STEPS)
