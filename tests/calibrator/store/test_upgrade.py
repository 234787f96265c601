"""An upgrade is whole or has not happened, on both databases, whoever else starts and whenever it is killed."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text

from hushmq.broker.contract.problem import Problem
from hushmq.broker.service import back_up_sqlite
from hushmq.broker.service.log import logger
from hushmq.calibrator.store.migrate import Upgrade, check_readable, upgrade
from hushmq.calibrator.store.open_database import open_store, open_to_upgrade
from hushmq.calibrator.store.revisions import OURS, Columns, Revisions, columns
from tests.calibrator.conftest import Databases
from tests.calibrator.steps import Steps
from tests.calibrator.store import stored
from tests.calibrator.store.later import (
    NEXT,
    add_to_revision,
    backups,
    content,
    later_revisions,
    prepared,
    schema,
    upgraded,
)
from tests.child import in_child


@pytest.fixture
def later(tmp_path: Path) -> Revisions:
    return later_revisions(tmp_path)


@pytest.fixture
def old(databases: Databases) -> str:
    return prepared(databases)


def test_data_is_moved_and_nothing_else_changes(old: str, later: Revisions) -> None:
    """The table is rewritten with its rows, its index and the references to it; entries go on counting after them."""
    log = io.StringIO()
    before, tables = content(old), schema(old)
    done = upgraded(old, later, logger("info", "json", log))
    assert done.before == OURS.newest
    rows, releases = content(old)
    assert ([row[:-1] for row in rows], releases) == (before[0], before[1])
    assert all(row[-1] == "release and statistics" or row[-1] for row in rows)
    now = schema(old)
    for facts in ("get_multi_indexes", "get_multi_foreign_keys", "get_multi_pk_constraint"):
        assert {name: value for name, value in now[facts].items() if name != "reader"} == tables[facts]
    events = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [one["event"] for one in events] == (["database_backed_up"] if done.backup else []) + [
        "database_upgraded"
    ]
    assert (events[-1]["revision_before"], events[-1]["revision"]) == (OURS.newest, NEXT)
    engine = open_to_upgrade(old)
    with engine.begin() as db:
        number = db.execute(
            text(
                'INSERT INTO ledger (stream, "window", audience, first, last, tilt, noise, noise_digest, why, at,'
                " digest) VALUES ('s', 'w', 'public', 1, 2, 3, 1, '', '', '', '') RETURNING id"
            )
        ).scalar()
        assert number == 26
    engine.dispose()
    assert upgraded(old, later) == Upgrade(NEXT)


def test_whoever_only_reads_is_told_to_upgrade(old: str, later: Revisions) -> None:
    """`hushmq ledger` of the newer version does not read it, and changes nothing."""
    engine = create_engine(old)
    with (
        engine.connect() as db,
        pytest.raises(Problem, match=r"must be upgraded to .* hushmq calibrator upgrade"),
    ):
        check_readable(db, revisions=later)
    engine.dispose()
    assert backups(old) == []


def test_the_older_version_refuses_the_upgraded_database(old: str, later: Revisions) -> None:
    """Going back means restoring the copy, in words."""
    upgraded(old, later)
    with pytest.raises(
        Problem, match=rf"newer version .*revision {NEXT}.* up to {OURS.newest}: install that version"
    ):
        open_store(old)


def test_a_revision_that_fails_changes_nothing(old: str, later: Revisions) -> None:
    """Not even what it did before the statement that failed; the message says why."""
    add_to_revision(later, "INSERT INTO nowhere VALUES (1)")
    before, tables = content(old), schema(old)
    with pytest.raises(
        Problem,
        match=rf"cannot be upgraded from revision {OURS.newest} to {NEXT}: .*nowhere.*; nothing was changed",
    ):
        upgraded(old, later)
    assert (content(old), schema(old)) == (before, tables)
    open_store(old).dispose()


def test_broken_references_stop_an_upgrade(sqlite_databases: Databases, later: Revisions) -> None:
    """References are off while tables are rewritten, and checked before the commit."""
    url = prepared(sqlite_databases)
    add_to_revision(later, "DELETE FROM ledger WHERE id = 3")
    before = content(url)
    with pytest.raises(
        Problem, match=r"table release refers to rows that ledger does not have; nothing was changed"
    ):
        upgraded(url, later)
    assert content(url) == before


def together(tasks: list[Callable[[], None]]) -> list[int]:
    """Run tasks as processes that begin at once; their exit codes."""
    read, write = os.pipe()
    children = []
    for task in tasks:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.alarm(60)
                os.close(write)
                os.read(read, 1)  # all wake when the parent closes its end
                task()
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    os.close(read)
    os.close(write)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]


def test_two_that_start_at_once_upgrade_once(old: str, later: Revisions, tmp_path: Path) -> None:
    """One upgrades, the other waits and finds it done."""
    from alembic import command  # noqa: F401  # loaded here, so that the children begin together

    def start(name: str) -> None:
        (tmp_path / name).write_text(str(upgraded(old, later).before))

    names = [f"calibrator-{number}" for number in range(3)]
    assert together([lambda name=name: start(name) for name in names]) == [0, 0, 0]
    assert sorted((tmp_path / name).read_text() for name in names) == [OURS.newest, NEXT, NEXT]
    assert len(backups(old)) <= 1


def test_two_that_start_at_once_on_an_empty_database(databases: Databases, tmp_path: Path) -> None:
    """One creates the tables, the other finds them."""
    url = databases.fresh()

    def start() -> None:
        open_store(url).dispose()

    assert together([start, start, start]) == [0, 0, 0]
    open_store(url).dispose()


class KilledAtSteps:
    """Upgrades in a process that kills itself at its n-th step: a statement, a commit, a call for the copy."""

    def __init__(self, url: str, revisions: Revisions) -> None:
        self._url, self._revisions = url, revisions

    def __call__(self, at: int) -> int:
        return in_child(lambda: self._upgrade(Steps(at)))

    def _upgrade(self, step: Steps) -> None:
        engine = open_to_upgrade(self._url)
        step.follow(engine)
        for name in ("_copy", "_keep", "_sync"):
            setattr(back_up_sqlite, name, _between(step, getattr(back_up_sqlite, name)))
        upgrade(engine, revisions=self._revisions)
        engine.dispose()
        step()


def _between(step: Steps, call: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any) -> Any:
        step()
        found = call(*args)
        step()
        return found

    return called


@pytest.mark.slow
@pytest.mark.parametrize(("name", "stride"), [("sqlite", 1), ("postgres", 5)])
def test_killed_at_any_step_it_is_old_or_new(
    request: pytest.FixtureRequest, later: Revisions, name: str, stride: int
) -> None:
    """From release 0.1 through all revisions: rows, tables and revision are those before or those after, never between.

    The next start ends it, whatever the first has left beside the database. On PostgreSQL, where a new database takes
    long, not every step is tried.
    """
    databases: Databases = request.getfixturevalue(f"{name}_databases")
    stored.fill(first := databases.fresh())
    before = state(first)
    # Alembic is loaded here, once, and not in every child.
    upgraded(databases.copy(first) if name == "sqlite" else first, later)
    ended: set[tuple[str, ...]] = set()
    at, survived = 1, False
    while not survived:
        if name == "sqlite":
            url = databases.copy(first)
        else:
            stored.fill(url := databases.fresh())
        survived = KilledAtSteps(url, later)(at) == 0
        left = tuple(copy.name for copy in backups(url))
        if revision(url) != NEXT:
            assert (*state(url), revision(url)) == (*before, None), f"step {at}"
            if left not in ended:
                assert upgraded(url, later).before == OURS.first
                ended.add(left)
        if revision(url) == NEXT:
            entries, releases = content(url)
            assert [[row[:-1] for row in entries], releases] == before[0], f"step {at}"
            assert "reader" in state(url)[1]
            assert len(backups(url)) == (1 if name == "sqlite" else 0), f"step {at}"
            assert [state(f"sqlite:///{copy}") for copy in backups(url)] == [before] * len(backups(url))
        at += stride
    assert len(ended) == (3 if name == "sqlite" else 1)
    assert at > 12


def state(url: str) -> tuple[list[Any], Columns]:
    engine = create_engine(url)
    with engine.connect() as db:
        found = columns(db)
    engine.dispose()
    return content(url), found


def revision(url: str) -> str | None:
    """What is written down in the database, None where nothing is."""
    engine = create_engine(url)
    with engine.connect() as db:
        there = inspect(db).has_table("alembic_version")
        found = db.execute(text("SELECT version_num FROM alembic_version")).scalar_one() if there else None
    engine.dispose()
    return found


def test_a_database_in_memory_needs_no_copy(later: Revisions) -> None:
    """There is nowhere to put one."""
    engine = open_to_upgrade("sqlite://")
    upgrade(engine)
    assert upgrade(engine, revisions=later) == Upgrade(OURS.newest, None)
    engine.dispose()


def test_the_copy_is_what_was_there(sqlite_databases: Databases, later: Revisions) -> None:
    """Whole, private as the database is, at the place that is told; what was only in the log is in it."""
    url = prepared(sqlite_databases)
    path = Path(url.removeprefix("sqlite:///"))
    path.chmod(0o640)
    held = sqlite3.connect(path)  # a second connection keeps the log from being folded into the file
    held.execute("UPDATE tally SET late = 4711")
    held.commit()
    before = content(url)
    done = upgraded(url, later)
    held.close()
    assert done.backup == path.parent / f"ledger.db.before-{NEXT}"
    assert done.backup.stat().st_mode & 0o777 == 0o640
    assert backups(url) == [done.backup]
    assert content(f"sqlite:///{done.backup}") == before
    with sqlite3.connect(done.backup) as db:
        assert set(db.execute("SELECT late FROM tally")) == {(4711,)}
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    done.backup.replace(path)
    open_store(url).dispose()
    assert content(url) == before


def test_a_full_disk_stops_the_upgrade_and_nothing_changes(
    sqlite_databases: Databases, later: Revisions
) -> None:
    """No copy, no upgrade: the message says so, and nothing is left lying about."""
    url = prepared(sqlite_databases)
    path = Path(url.removeprefix("sqlite:///"))
    before, tables = path.read_bytes(), schema(url)

    def fills_up() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size // 2, resource.RLIM_INFINITY))
        with pytest.raises(Problem, match=r"ledger\.db cannot be backed up .*; nothing was changed"):
            upgraded(url, later)

    assert in_child(fills_up) == 0
    assert backups(url) == []
    assert (path.read_bytes(), schema(url)) == (before, tables)
    assert upgraded(url, later).before == OURS.newest
