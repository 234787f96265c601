"""What a site has released is read with its time, as a table and as a picture."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import insert

import hushmq
from hushmq.__main__ import main
from hushmq.broker.contract.messages import Release, decode, encode
from hushmq.broker.contract.release_times import release_times
from hushmq.broker.contract.theta_message import theta_message
from hushmq.calibrator.store import tables
from hushmq.calibrator.store.open_database import open_store, sqlite_url
from tests.calibrator.site import NARROW, policy, signed

TICK = 1_790_000_000


def one(number: int, *, stated: bool, smoothed: bool = True) -> Release:
    share = 0.3 + 0.01 * number
    first, last = TICK + 60 * number, TICK + 60 * number + 59
    return Release(
        stream="motion",
        window="short",
        scope="cohort",
        first=first,
        last=last,
        devices=3,
        ticks=180,
        states=("still", "moving"),
        counts=(100, 80),
        frequencies=(1 - share, share),
        standard_errors=(0.1, 0.1),
        intervals=((0.5, 0.9), (0.1, 0.5)),
        scale=10.0,
        tilt=1000,
        loss=0.5,
        budget=1.0,
        adversary="prior",
        theta=theta_message(NARROW),
        entry=number,
        smoothed=(0.6, 0.4) if smoothed else None,
        smoothed_intervals=((0.5, 0.7), (0.3, 0.5)) if smoothed else None,
        **(release_times(first, last, 1000) if stated else {}),  # type: ignore[typeddict-item]
    )


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A database with a policy, and four releases, the first of which states no time, as they did before."""
    url = sqlite_url(tmp_path / "ledger.db")
    engine = open_store(url)
    entry = {
        "stream": "motion", "window": "short", "audience": "public", "tilt": 1, "noise": 1, "noise_digest": "0",
        "why": "release", "at": "2026-01-01", "digest": "0",
    }  # fmt: skip
    with engine.begin() as db:
        db.execute(insert(tables.policy).values(version=1, payload=signed(policy())))
        for number in range(1, 5):
            message = one(number, stated=number > 1, smoothed=number != 3)
            db.execute(
                insert(tables.ledger).values(id=number, first=message.first, last=message.last, **entry)
            )
            db.execute(
                insert(tables.release).values(entry=number, topic="t", payload=encode(message), sent=True)
            )
    engine.dispose()
    return url


def test_a_release_says_when_it_was() -> None:
    """Start and end are UTC, the end that of the next window; what lies beyond all calendars has none."""
    found = release_times(0, 59, 1000)
    assert found == {
        "period_ms": 1000,
        "start": "1970-01-01T00:00:00.000Z",
        "end": "1970-01-01T00:01:00.000Z",
    }
    assert release_times(3, 3, 250)["start"] == "1970-01-01T00:00:00.750Z"
    assert release_times(2**52, 2**52, 86_400_000)["start"] is None
    assert decode(Release, encode(one(1, stated=True))).start is not None
    assert decode(Release, encode(one(1, stated=False))).start is None


def test_releases_are_read_with_their_time(database: str) -> None:
    """Also of a release that was made before times were stated: a stream's period never changes."""
    found = hushmq.releases(database)
    assert [one.entry for one in found] == [1, 2, 3, 4]
    for each in found:
        assert each.start is not None
        assert datetime.fromisoformat(each.start).timestamp() == each.first
    assert hushmq.releases(database, window="hour") == []
    with pytest.raises(hushmq.Problem, match="does not exist"):
        hushmq.releases("sqlite:////none.db")


def test_the_table_has_a_row_for_each_state(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As CSV and as JSON lines, equal to each other."""
    assert main(["releases", "export", database]) == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["entry"], row["state"]) for row in table[:2]] == [("1", "still"), ("1", "moving")]
    assert main(["releases", "export", database, "--format", "jsonl"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [
        {key: "" if value is None else str(value) for key, value in line.items()} for line in lines
    ] == table
    assert lines[5]["smoothed"] is None
    assert lines[7]["smoothed"] == 0.4


def test_shares_over_time(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the terminal, as numbers and as a picture; the released share stands where there is no smoothed one."""
    assert main(["releases", "plot", database]) == 0
    assert "motion/short/cohort: 4 releases since" in capsys.readouterr().out
    assert main(["releases", "plot", database, "--json"]) == 0
    (panel,) = json.loads(capsys.readouterr().out)["panels"]
    (curve,) = panel["curves"]
    assert curve["y"] == pytest.approx([0.4, 0.4, 0.33, 0.4])
    assert curve["x"] == pytest.approx([0, 1, 2, 3])
    assert main(["releases", "plot", database, "--state", "still", "--unsmoothed", "--json"]) == 0
    (curve,) = json.loads(capsys.readouterr().out)["panels"][0]["curves"]
    assert curve["y"] == pytest.approx([0.69, 0.68, 0.67, 0.66])
    assert main(["releases", "plot", database, "--output", str(tmp_path / "r.svg")]) == 0
    assert "<svg" in (tmp_path / "r.svg").read_text()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("plot {url} --state running", "--state: motion has no state 'running'; it has still, moving"),
        ("plot {url} --stream none", "there are no releases yet"),
        ("plot {url} --output x.pdf", "--output: x.pdf does not end in"),
        ("export {url} --format parquet", "--out: parquet is no text"),
        ("export {url} --out /dev/null/x", "--out: /dev/null/x: Not a directory"),
        ("export /none", "/none does not exist"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(
    database: str, words: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["releases", *words.format(url=database).split()]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
