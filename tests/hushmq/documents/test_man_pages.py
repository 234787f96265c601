"""Man pages and completion are made from the parsers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hushmq.__main__ import COMMANDS
from hushmq.documents import man_pages
from hushmq.documents.shell_completion import SHELLS, script


def test_every_command_has_a_page_with_its_options() -> None:
    """A page for each command, and one that lists them; an option of a subcommand is in it."""
    pages = man_pages.man_pages()
    assert set(pages) == {"hushmq.1", *(f"hushmq-{name}.1" for name in COMMANDS)}
    assert all(f"hushmq\\-{name}(1)" in pages["hushmq.1"] for name in COMMANDS)
    assert "\\fB\\-\\-config FILE\\fR" in pages["hushmq-agent.1"]
    assert ".SH HUSHMQ AGENT CHECK\\-CONFIG" in pages["hushmq-agent.1"]


def test_no_line_of_text_is_taken_for_a_request() -> None:
    """Lines that begin with a dot are those of the page's own structure."""
    for page in man_pages.man_pages().values():
        requests = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
        assert requests <= {".TH", ".SH", ".TP", ".PP", ".nf", ".fi", ".B", ".BR"}


def test_the_pages_are_written(tmp_path: Path) -> None:
    """The folder is made; names are those that man looks for."""
    assert man_pages.main([str(tmp_path / "man1")]) == 0
    assert (tmp_path / "man1" / "hushmq-agent.1").read_text().startswith(".TH HUSHMQ-AGENT 1")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_accepts_the_script(shell: str, tmp_path: Path) -> None:
    """The script names every command, and the shell, where it is installed, finds nothing wrong with it."""
    path = tmp_path / "completion"
    path.write_text(script(shell))
    assert all(name in path.read_text() for name in COMMANDS)
    if shutil.which(shell):
        subprocess.run([shell, "-n", path], check=True)
