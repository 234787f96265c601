"""The tutorials: their commands are commands, and their pictures are of what these give."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hushmq.api.release_history import releases
from hushmq.documents.tutorial_pictures import FOLDER, TUTORIALS, Tutorial, simulate
from tests.deploy.command import parse

NAMES = [one.name for one in TUTORIALS]


def commands(text: str) -> list[str]:
    """The lines of a page's shell blocks that run hushmq, continued ones as one."""
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).replace("\\\n", " ")
    return [
        line[line.index("hushmq ") :]
        for line in blocks.splitlines()
        if "hushmq " in line and "pip" not in line
    ]


def test_every_page_is_a_tutorial() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.md")) == sorted(NAMES)


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=NAMES)
def test_its_commands_are_commands_and_it_ends_in_its_picture(tutorial: Tutorial) -> None:
    """The picture's site is made by the command that the page gives."""
    text = (FOLDER / f"{tutorial.name}.md").read_text()
    found = commands(text)
    assert tutorial.command in found
    for line in found:
        parse(shlex.split(line.split("#")[0].split(">")[0])[1:])
    last = text[text.rindex("\n## ") :]
    assert f"]({tutorial.name}.svg)" in last
    assert "hushmq releases plot" in last
    assert (FOLDER / f"{tutorial.name}.svg").exists()


@pytest.mark.slow
def test_simulated_windows_are_released(tmp_path: Path) -> None:
    """Those of the shortest tutorial, with as many devices as it has."""
    site = simulate(TUTORIALS[0], tmp_path, windows=2)
    found = releases(str(site), window=TUTORIALS[0].window)
    assert [one.devices for one in found] == [TUTORIALS[0].devices] * 2
