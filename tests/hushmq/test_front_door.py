"""The front door: commands in processes of their own, exit codes, missing extras, who imports what."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import hushmq.__main__ as front_door
from hushmq.__main__ import COMMANDS
from tests.hushmq.command import Hushmq, spawn

TIMELINE = {"q": 0.2, "r": 0.3, "ticks": 4, "entries": [{"first": 1, "last": 4, "tau": 0.25}]}
CHAIN = {"chains": [{"transition": [[0.9, 0.1], [0.3, 0.7]], "initial": None}], "length": None}
CALIBRATE = ("calibrate", "--q", 0.0893, "--r", 0.1092, "--epsilon", 1)


def test_the_installed_command() -> None:
    """`hushmq calibrate` as a user's shell runs it."""
    command = Path(sys.executable).with_name("hushmq")
    done = subprocess.run(
        [command, *map(str, CALIBRATE), "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["rho0"] == pytest.approx(0.4818, abs=5e-5)
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        CALIBRATE,
        ("price", "--q", 0.2, "--r", 0.2, "--rho0", 0.2, "--rho1", 0.2),
        ("ledger", "price", "timeline.json"),
        ("explain", "loss", "--q", 0.2, "--r", 0.2, "--epsilon", 1),
        ("explain", "timeline", "timeline.json"),
    ],
)
def test_the_standard_library_is_enough(tmp_path: Path, words: tuple[object, ...]) -> None:
    """Binary chains are calibrated, priced and drawn without numpy and matplotlib."""
    path = tmp_path / "timeline.json"
    path.write_text(json.dumps(TIMELINE))
    named = [path if word == "timeline.json" else word for word in words]
    answer = spawn(*named, without=("numpy", "scipy", "matplotlib"))
    assert (answer.code, answer.err) == (0, "")
    assert answer.out != ""


@pytest.mark.parametrize(
    ("words", "module", "extra"),
    [
        (("scale", "chain.json", "--epsilon", 1, "--method", "entry"), "numpy", "calibrator"),
        (("explain", "scale", "chain.json"), "numpy", "evaluation"),
        (("explain", "loss", "--q", 0.2, "--r", 0.2, "--output", "loss.png"), "matplotlib", "evaluation"),
    ],
)
def test_a_missing_extra_is_named(tmp_path: Path, words: tuple[object, ...], module: str, extra: str) -> None:
    """Where a package is missing, one line says which one and how to install it; exit code 2."""
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(CHAIN))
    named = [tmp_path / word if word in {"chain.json", "loss.png"} else word for word in words]
    complaint = spawn(*named, without=(module,)).complaint
    what, instead = f"'hushmq {words[0]}'", ""
    if "--output" in words:
        what, instead = "--output: a PNG", "give a name that ends in .svg, or "
    assert complaint == (
        f"hushmq: {what} needs {module}, which is not installed: {instead}pip install 'hushmq[{extra}]'\n"
    )
    assert not (tmp_path / "loss.png").exists()


def test_a_reader_that_goes_away() -> None:
    """A closed pipe is no traceback: the command stops with exit code 1 and says nothing."""
    program = (
        f"from hushmq.__main__ import main; import sys; sys.exit(main({[str(word) for word in CALIBRATE]!r}))"
    )
    child = subprocess.Popen(
        [sys.executable, "-uc", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.close()
    assert child.stderr is not None
    with child.stderr:
        assert child.stderr.read() == ""
    assert child.wait(timeout=30) == 1


def test_a_terminal_without_unicode() -> None:
    """Characters the output cannot carry are replaced; the answer is still given."""
    program = "from hushmq.__main__ import main; main(['explain', 'loss', '--q', '0.2', '--r', '0.2'])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "loss, nats" in done.stdout


@pytest.mark.parametrize("name", ["calibrate", "price", "scale", "ledger", "explain"])
def test_help_has_examples(hushmq: Hushmq, name: str) -> None:
    """Every command's help shows how it is used, in lines that can be pasted."""
    answer = hushmq(name, "--help")
    actions = {"ledger": ["price"], "explain": ["loss", "timeline", "scale"]}.get(name, [])
    assert answer.code == 0
    for text in [hushmq(name, action, "--help").out for action in actions] or [answer.out]:
        assert "\nexamples:\n  hushmq " in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("calibrat",), "unknown command 'calibrat': choose from "),
        (("--quiet", "calibrate"), "unrecognized arguments: --quiet"),
        ((*CALIBRATE, "--fast"), "unrecognized arguments: --fast"),
        ((*CALIBRATE, "5"), "unrecognized arguments: 5"),
    ],
)
def test_bad_words(hushmq: Hushmq, words: tuple[object, ...], says: str) -> None:
    """What is not a command or an option is said to be none."""
    assert hushmq(*words).complaint.startswith(f"hushmq: {says}")


def test_version_and_listing(hushmq: Hushmq) -> None:
    """`hushmq --version` names the distribution, `hushmq --help` every command."""
    assert hushmq("--version").out.startswith("hushmq ")
    assert all(f"  {name} " in hushmq("--help").out for name in COMMANDS)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EMFILE])
def test_what_the_system_refuses_is_told(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No right to write, no space, no more files: one line with the file and the system's words, exit code 2."""
    failing = SimpleNamespace(configure=lambda _: None, run=lambda _: _raise(OSError(code, "no", "/a/file")))
    monkeypatch.setattr(front_door, "load", lambda _: failing)
    assert front_door.main(["demo"]) == 2
    assert capsys.readouterr().err == "hushmq: /a/file: no\n"


def test_other_errors_are_ours_and_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file that nobody has turned into a sentence is a mistake in the program."""
    failing = SimpleNamespace(configure=lambda _: None, run=lambda _: _raise(FileNotFoundError(2, "no", "x")))
    monkeypatch.setattr(front_door, "load", lambda _: failing)
    with pytest.raises(FileNotFoundError):
        front_door.main(["demo"])


def _raise(error: Exception) -> int:
    raise error
