"""The console's log: whatever is changed in it shows, also against the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.ledger.high_water_mark import mark_of
from hushmq.console.activity.activity_log import ActivityLog
from hushmq.console.activity.verify_log import verify_log
from hushmq.console.store.read_only_database import ReadOnlyDatabase


def written(path: Path, count: int = 6) -> Path:
    log = ActivityLog(path)
    for number in range(count):
        log.add("ann", "view", "/devices", f"viewed {number}")
    log.close()
    return path


def right(path: Path) -> bool:
    return all(check.passed for check in verify_log(path, None))


def test_the_log_goes_on_after_a_restart(tmp_path: Path) -> None:
    """One chain over several runs; a line that a crash cut short is removed, and nothing else is."""
    path = written(tmp_path / "log.jsonl")
    with path.open("a") as file:
        file.write('{"number": 7, "at"')
    log = ActivityLog(path)
    assert log.count == 6
    log.add("vic", "login", "console", "logged out")
    log.close()
    assert right(path)
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()] == list(range(1, 8))


Lines = list[str]


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines[:2], lines[2].replace("ann", "bob"), *lines[3:]],
        lambda lines: lines[:2] + lines[3:],
        lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        lambda lines: lines[1:],
        lambda lines: [lines[0], *lines],
    ],
    ids=["changed", "removed", "moved", "without the first", "twice"],
)
def test_a_changed_log_is_found_out(tmp_path: Path, change: Callable[[Lines], Lines]) -> None:
    """Every line stands for all lines before it."""
    path = written(tmp_path / "log.jsonl")
    assert right(path)
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))
    assert not right(path)


def test_a_line_that_is_no_entry_is_refused(tmp_path: Path) -> None:
    """The console does not append to what is not its log."""
    path = tmp_path / "log.jsonl"
    path.write_text('{"number": 1}\n')
    with pytest.raises(Problem, match="line 1 is no entry of the log"):
        ActivityLog(path)


def test_log_and_ledger_confirm_each_other(tmp_path: Path, ledger: Path) -> None:
    """A head that the log saw must lie on the ledger's chain: a ledger cut short or another one is found out."""
    database = ReadOnlyDatabase(f"sqlite:///{ledger}")
    mark = database.read_here(lambda db: mark_of(db, "motion"))
    for entries, head, fits in (
        (mark.entries, mark.head, True),
        (mark.entries + 1, mark.head, False),
        (mark.entries, "0" * 64, False),
    ):
        path = tmp_path / f"{entries}-{head[:4]}.jsonl"
        log = ActivityLog(path)
        log.ledger_moved("motion", entries, head)
        log.add("site", "ledger", "motion", "moved")
        log.ledger_moved("motion", entries, head)
        assert log.add("site", "view", "/", "the same again").ledger == {}
        log.close()
        checks = database.read_here(lambda db, path=path: list(verify_log(path, db)))
        assert [check.passed for check in checks] == [True, fits]
    database.close()
