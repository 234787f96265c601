"""`hushmq ledger archive`, and every command that reads releases after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushmq.__main__ import main
from hushmq.calibrator.ledger import archive_releases
from tests.calibrator.ledger.test_archive_releases import KEPT, WINDOWS, fill
from tests.calibrator.site import CALIBRATOR, OPS, sqlite

MOVED = (WINDOWS - KEPT) * 4


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The settings of a calibrator of which two windows of each sequence stay."""
    monkeypatch.setattr(archive_releases, "KEPT", KEPT)
    fill(sqlite(tmp_path), mark_path=tmp_path / "mark")
    CALIBRATOR.save(tmp_path / "signing.key")
    (tmp_path / "password").touch(mode=0o600)
    (tmp_path / "password").write_text("secret\n")
    path = tmp_path / "calibrator.toml"
    path.write_text(f"""
cohort = "test"
database = "{sqlite(tmp_path)}"
mark_file = "{tmp_path / "mark"}"
[broker]
urls = ["mqtt://127.0.0.1:1"]
username = "calibrator"
password_file = "{tmp_path / "password"}"
[keys]
ops_keys = ["{OPS.public}"]
signing_key_file = "{tmp_path / "signing.key"}"
""")
    return str(path)


def test_archive_and_read_on(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What moved is said by every command that misses it, and read by those that are told where it is."""

    def told(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    archive = str(tmp_path / "archive")
    _, all_of_it, _ = told("releases", "export", config)
    before = "9999-12-31"
    code, out, _ = told("ledger", "archive", "--config", config, "--before", before, "--out", archive)
    assert code == 0
    assert f"{MOVED} releases, of entries 1 to 8" in out
    code, out, _ = told(
        "ledger", "archive", "--config", config, "--before", before, "--out", archive, "--json"
    )
    assert (code, json.loads(out)["files"]) == (0, [])

    assert f"{MOVED} older releases" in told("ledger", "show", "--config", config)[1]
    _, less, said = told("releases", "export", config)
    assert len(less.splitlines()) == 1 + KEPT * 4 * 2
    assert "give --archive DIR" in said
    assert told("releases", "export", config, "--archive", archive)[1] == all_of_it

    code, out, _ = told("ledger", "verify", "--config", config)
    assert code == 0
    assert f"not checked: {MOVED} older releases" in out
    code, out, _ = told("ledger", "verify", "--config", config, "--archive", archive)
    assert (code, "not checked" in out) == (0, False)
    assert f"{WINDOWS * 4} results" in out

    export = tmp_path / "export.json"
    export.write_text(told("ledger", "export", "--config", config, "--format", "bundle")[1])
    assert told("verify", str(export), "--archive", archive)[0] == 0
    assert told("verify", str(export))[0] == 1

    min((tmp_path / "archive").glob("*.gz")).unlink()
    assert told("ledger", "verify", "--config", config, "--archive", archive)[0] == 1
    assert told("verify", str(export), "--archive", archive)[0] == 1
    code, _, said = told("releases", "export", config, "--archive", archive)
    assert (code, "is missing" in said) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--keep-days", "-1"], "--keep-days: -1 is not a number of days from 0 to 36500"),
        (["--before", "yesterday"], "--before: 'yesterday' is no day: write it as 2026-01-31"),
        ([], "one of the arguments --before --keep-days is required"),
    ],
)
def test_bad_input(
    words: list[str], said: str, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit code 2, and nothing is moved."""
    assert main(["ledger", "archive", "--config", config, "--out", str(tmp_path / "a"), *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_a_folder_that_cannot_be_written(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file in its place."""
    (tmp_path / "taken").write_text("")
    words = ["ledger", "archive", "--config", config, "--before", "9999-01-01"]
    assert main([*words, "--out", str(tmp_path / "taken")]) == 2
    assert "--out:" in capsys.readouterr().err
