"""Runs the command line as a user does, in this process or in a subprocess."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hushmq.__main__ import main


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object on standard output."""
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one line on standard error of a command that refused its input."""
        assert self.code == 2, (self.code, self.err)
        assert self.out == ""
        assert self.err.startswith("hushmq: ")
        assert self.err.count("\n") == 1
        assert "Traceback" not in self.err
        return self.err


class Hushmq:
    """`hushmq …` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._capsys = capsys
        self._folder = folder

    def __call__(self, *words: object) -> Answer:
        try:
            code = main([str(word) for word in words])
        except SystemExit as stop:  # --help and --version end this way
            code = int(stop.code or 0)
        out, err = self._capsys.readouterr()
        return Answer(code, out, err)

    def file(self, content: object, name: str = "given.json") -> Path:
        """A file with this text, or with this value as JSON."""
        path = self._folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path


def spawn(*words: object, without: tuple[str, ...] = (), env: dict[str, str] | None = None) -> Answer:
    """Runs `hushmq …` in a subprocess in which the modules in `without` are not installed."""
    hide = f"import sys; sys.modules.update(dict.fromkeys({without!r})); " if without else "import sys; "
    # A None in sys.modules makes the import fail with ModuleNotFoundError, as an absent package does.
    program = f"{hide}from hushmq.__main__ import main; sys.exit(main({[str(word) for word in words]!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=env, check=False
    )
    return Answer(done.returncode, done.stdout, done.stderr)
