"""The agent accepts the examples of docs/agent.md."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import get_args

import pytest

from hushmq.agent.agent_config import load
from hushmq.agent.sources.source_config import AnySource
from tests.agent.peer import write_config

TEXT = (Path(__file__).parents[2] / "docs" / "agent.md").read_text("utf-8")
SOURCES = re.findall(r"^```toml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
PROGRAMS = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def with_source(folder: Path, section: str) -> Path:
    """Return a device's file in which the streams of an example replace its streams."""
    path = write_config(folder)
    head, _ = path.read_text().split("[streams.motion.source]")
    path.write_text(head + section)
    return path


@pytest.mark.parametrize("section", SOURCES)
def test_every_source_shown_is_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recording.txt").touch()
    assert load(with_source(tmp_path, section), {}).streams


def test_every_type_of_source_is_documented() -> None:
    there_are = {get_args(section.model_fields["kind"].annotation)[0] for section in get_args(AnySource)}
    assert set(re.findall(r'kind = "([\w-]+)"', TEXT)) == there_are


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_program_shown_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.chdir(tmp_path)
    with_source(tmp_path, '[streams.pulse.source]\nkind = "offer"\n')
    exec(program, {})  # noqa: S102  # code from the repository's documents
    deadline = time.monotonic() + 20
    while (tmp_path / "state" / "agent.sock").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
