"""`hushmq ledger show|verify|export`: what the entries say, recomputed, and any change to them found out."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from hushmq.__main__ import main
from hushmq.broker.contract.policy_message import Window
from hushmq.calibrator.ledger.verify_ledger import verify
from hushmq.calibrator.store.open_database import open_to_read
from tests.calibrator.conftest import Databases
from tests.calibrator.site import STREAM, desk, policy, sqlite

TWO = {"short": Window(ticks=20, scopes=("cohort", "device")), "long": Window(ticks=40)}


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A ledger of four short windows and two long ones."""
    with desk(sqlite(tmp_path), mark_path=tmp_path / "mark") as here:
        here.adopt(policy(windows=TWO))
        for number in range(4):
            here.window(number)
            here.cohort.close_due()
    return sqlite(tmp_path)


def change(url: str, statement: str) -> None:
    engine = create_engine(url)
    with engine.begin() as db:
        db.exec_driver_sql(statement)
    engine.dispose()


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["ledger", *arguments])
    return code, capsys.readouterr().out


def test_show(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Both accounts, the assumption, the plot and the last entries, for people and as JSON."""
    code, text_ = told(capsys, "show", "--database", url)
    assert code == 0
    for words in (STREAM, "operator", "public", "P(0→1)", "public loss", "release and statistics", "misfit:"):
        assert words in text_
    assert "does not add up over windows" in text_
    code, json_ = told(capsys, "show", "--database", url, "--json")
    found = json.loads(json_)[STREAM]
    assert len(found["entries"]) == len(found["history"]) == 10
    spenders = {(one["window"], one["scope"]): one["entries"] for one in found["windows"]}
    assert spenders == {("short", "cohort"): 4, ("short", "device"): 4, ("long", "cohort"): 2}
    assert found["public"]["left"] == pytest.approx(found["public"]["budget"] - found["public"]["loss"])
    losses = [point["loss"] for point in found["history"]]
    assert losses == sorted(losses)
    assert 0 < losses[-1] <= 1.0


def test_a_ledger_as_written_is_right(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing wrong is found where nothing is wrong."""
    code, text_ = told(capsys, "verify", "--database", url)
    assert (code, text_.splitlines()[-1]) == (0, "the ledger is right")
    code, json_ = told(capsys, "verify", "--database", url, "--json")
    assert code == 0
    assert len(json.loads(json_)["checks"]) >= 6


def test_a_ledger_on_postgresql_is_read_the_same(
    postgres_databases: Databases, capsys: pytest.CaptureFixture[str]
) -> None:
    """Digests, losses and results come out of PostgreSQL as they went in."""
    url = postgres_databases.fresh()
    with desk(url) as here:
        here.adopt(policy(windows=TWO))
        for number in range(2):
            here.window(number)
            here.cohort.close_due()
        # Somebody may look while a calibrator holds its lock.
        with here.engine.begin():
            code, text_ = told(capsys, "verify", "--database", url)
    assert (code, text_.splitlines()[-1]) == (0, "the ledger is right")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("UPDATE ledger SET tilt = tilt - 1 WHERE id = 3", "entries as they were written"),
        ("UPDATE ledger SET at = '2020-01-01T00:00:00+00:00' WHERE id = 3", "entries as they were written"),
        ("DELETE FROM ledger WHERE id = 2", "entries as they were written"),
        ("UPDATE ledger SET id = id + 100 WHERE id = 2", "entries as they were written"),
        ("UPDATE ledger SET stream = 'other' WHERE id = 2", "entries as they were written"),
        (
            "INSERT INTO release SELECT 2, topic, payload, 0 FROM release WHERE entry = 1",
            "results are what was charged",
        ),
        (
            "UPDATE release SET payload = CAST(replace(CAST(payload AS TEXT), '\"loss\":', '\"loss\":1') AS BLOB) "
            "WHERE entry = 4",
            "losses as stated, within budget then",
        ),
        (
            "UPDATE setting SET noise = replace(noise, '\"rho0\": 0.', '\"rho0\": 0.0')",
            "settings keep the operator's promise",
        ),
        (
            "UPDATE setting SET noise = replace(noise, '\"rho0\": 0.', '\"rho0\": 0.0')",
            "noise as it was charged through",
        ),
    ],
)
def test_a_changed_ledger_is_found_out(
    url: str, statement: str, check: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is altered, dropped or slipped in, verify names it and ends with code 1."""
    change(url, statement)
    code, json_ = told(capsys, "verify", "--database", url, "--json")
    assert code == 1
    assert check in {one["check"] for one in json.loads(json_)["checks"] if not one["passed"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM ledger WHERE id = (SELECT max(id) FROM ledger)",
        "DELETE FROM ledger",
    ],
)
def test_the_mark_finds_out_what_the_chain_cannot(url: str, tmp_path: Path, statement: str) -> None:
    """The last entries may be dropped without breaking the chain; the mark outside the database knows of them."""
    change(url, statement)
    engine = open_to_read(url)
    with engine.connect() as db:
        failed = {one.name for one in verify(db, STREAM, tmp_path / "mark") if not one.passed}
    engine.dispose()
    assert "reaches the high-water mark" in failed


@pytest.mark.slow
def test_plot(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The losses over time in the terminal, as a picture and as JSON; an empty ledger says so."""
    code, text_ = told(capsys, "plot", "--database", url)
    assert code == 0
    for words in (STREAM, "public budget 1", "operator budget 4", "hours"):
        assert words in text_
    for name in ("ledger.svg", "ledger.png"):
        assert told(capsys, "plot", "--database", url, "--output", str(tmp_path / name))[0] == 0
        assert (tmp_path / name).stat().st_size > 2000
    _, json_ = told(capsys, "plot", "--database", url, "--json")
    (panel,) = json.loads(json_)["panels"]
    assert len(panel["curves"][0]["y"]) == 10
    assert main(["ledger", "plot", "--database", url, "--output", "ledger.pdf"]) == 2
    assert ".png or .svg" in capsys.readouterr().err


@pytest.mark.slow
def test_export(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every entry with every field, in both forms."""
    _, as_csv = told(capsys, "export", "--database", url)
    rows = list(csv.DictReader(io.StringIO(as_csv)))
    _, as_lines = told(capsys, "export", "--database", url, "--format", "jsonl", "--stream", STREAM)
    objects = [json.loads(line) for line in as_lines.splitlines()]
    assert [row["digest"] for row in rows] == [one["digest"] for one in objects]
    assert len(rows) == 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "--database", "sqlite:////nowhere/ledger.db"], "does not exist"),
        (["show"], "--config --database"),
        (["verify", "--config", "/nowhere.toml"], "--config: /nowhere.toml"),
        (["show", "--database", "URL", "--stream", "other"], "there are motion"),
        (["show", "--database", "URL", "--last", "-1"], "--last: -1"),
    ],
)
def test_bad_input(url: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that names the option, exit code 2."""
    assert main(["ledger", *(url if one == "URL" else one for one in arguments)]) == 2
    assert words in capsys.readouterr().err
