"""A settings file that is wrong is told in one line that names the setting and what it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.__main__ import main
from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.calibrator_config import load
from tests.calibrator.site import CALIBRATOR, OPS

GOOD = """
cohort = "test"
database = "sqlite:///ledger.db"
[broker]
urls = ["mqtt://127.0.0.1"]
[keys]
ops_keys = ["{ops}"]
signing_key_file = "{folder}/signing.key"
"""


@pytest.fixture
def good(tmp_path: Path) -> str:
    CALIBRATOR.save(tmp_path / "signing.key")
    return GOOD.format(ops=OPS.public, folder=tmp_path)


def write(folder: Path, text: str) -> Path:
    path = folder / "calibrator.toml"
    path.write_text(text)
    return path


def test_a_good_file(tmp_path: Path, good: str, capsys: pytest.CaptureFixture[str]) -> None:
    """check-config says so, with the key's id."""
    assert main(["calibrator", "check-config", "--config", str(write(tmp_path, good))]) == 0
    assert CALIBRATOR.public.id in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('cohort = "test"', 'cohort = "a b"', "cohort: "),
        ('cohort = "test"\n', "", "cohort: Field required"),
        ('cohort = "test"', 'cohort = "test"\ngrace_s = -1', "grace_s: "),
        ('cohort = "test"', 'cohort = "test"\ngraze_s = 1', "graze_s: "),
        ('cohort = "test"', 'cohort = "test"\ngrace_s = nan', "grace_s: "),
        ('["mqtt://127.0.0.1"]', "[]", "broker.urls: "),
        ('["mqtt://127.0.0.1"]', '["http://127.0.0.1"]', "http://127.0.0.1"),
        ("ops_keys = [", 'ops_keys = ["short", ', "keys.ops_keys: "),
        ("signing.key", "missing.key", "missing.key: No such file"),
        ("cohort =", "cohort", "not TOML"),
    ],
)
def test_a_bad_file_is_told_in_one_line(
    tmp_path: Path, good: str, old: str, new: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and one line that names the setting."""
    assert old in good
    assert main(["calibrator", "check-config", "--config", str(write(tmp_path, good.replace(old, new)))]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    """The message names the option and the path."""
    with pytest.raises(Problem, match=r"--config: .*none.toml: No such file"):
        load(tmp_path / "none.toml")


def test_a_password_file_open_to_others_is_refused(
    tmp_path: Path, good: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A password that others can read is no secret: the file must be its owner's only."""
    password = tmp_path / "password"
    password.write_text("secret-word\n")
    password.chmod(0o644)
    text = good.replace("[keys]", f'username = "me"\npassword_file = "{password}"\n[keys]')
    assert main(["calibrator", "check-config", "--config", str(write(tmp_path, text))]) == 2
    told = capsys.readouterr().err
    assert "broker.password_file" in told
    assert "secret-word" not in told


def test_paths_are_relative_to_the_file(tmp_path: Path, good: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the current folder is: the database, its mark, keys, passwords and certificates."""
    monkeypatch.chdir("/")
    text = good.replace(f"{tmp_path}/signing.key", "signing.key")
    config = load(write(tmp_path, text))
    assert config.database == f"sqlite:///{tmp_path}/ledger.db"
    assert config.mark_path == tmp_path / "ledger.db.mark"
    assert config.keys.signing_key_file == tmp_path / "signing.key"
    text = text.replace("sqlite:///ledger.db", "postgresql+psycopg://me@db/ledger")
    assert load(write(tmp_path, text)).database == "postgresql+psycopg://me@db/ledger"
