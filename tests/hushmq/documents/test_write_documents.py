"""The reference documents and the command line's manual."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hushmq.__main__ import COMMANDS
from hushmq.documents import manual
from hushmq.documents import write_documents as documents


@pytest.mark.parametrize("writer", documents.WRITERS)
def test_no_document_is_stale(writer: str) -> None:
    """Every document in the repository is what the code says now: run `make docs` after a change."""
    stale = documents.stale([writer])
    assert not stale, f"run make docs: {', '.join(path.name for path in stale)}"


@pytest.fixture
def one_writer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A repository with one document, written by one module; where the document belongs."""
    module = ModuleType("a_writer")
    vars(module).update(PATH=Path("docs/a.md"), document=lambda: "as it is\n")
    monkeypatch.setitem(sys.modules, "a_writer", module)
    monkeypatch.setattr(documents, "WRITERS", ("a_writer",))
    monkeypatch.setattr(documents, "ROOT", tmp_path)
    return tmp_path / "docs" / "a.md"


def test_check_changes_nothing(one_writer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--check names a document that is missing or differs, exits 1, and leaves it as it is."""
    assert documents.main(["--check"]) == 1
    assert not one_writer.exists()
    one_writer.parent.mkdir()
    one_writer.write_text("as it was\n")
    assert documents.main(["--check"]) == 1
    assert one_writer.read_text() == "as it was\n"
    assert capsys.readouterr().out == "docs/a.md: stale: run make docs\n" * 2


def test_writing_makes_it_fresh(one_writer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is stale is written, once; then nothing is stale."""
    assert documents.main([]) == 0
    assert one_writer.read_text() == "as it is\n"
    assert documents.main([]) == 0
    assert documents.main(["--check"]) == 0
    assert capsys.readouterr().out == "docs/a.md: written\n"


def test_the_manual_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same text whatever the width of the terminal."""
    texts = set()
    for columns in ("40", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        texts.add(manual.document())
    assert len(texts) == 1


def test_the_manual_has_every_command() -> None:
    """Every command and every one of its subcommands has a section."""
    text = manual.document()
    for name in COMMANDS:
        assert f"\n## hushmq {name}\n" in text
    for words in ("ledger price", "explain loss", "explain timeline", "explain scale"):
        assert f"\n### hushmq {words}\n" in text


def test_a_section() -> None:
    """An option is shown as it is typed, with what it takes; bars cannot break the table."""
    parser = argparse.ArgumentParser(prog="hushmq thing", epilog="examples:\n  hushmq thing")
    parser.add_argument("file", metavar="FILE", help="the file")
    parser.add_argument("--kind", choices=("a", "b"), default="a", help="one|other (default %(default)s)")
    parser.add_argument("--span", nargs=2, metavar=("LOW", "HIGH"), required=True, help="a range")
    parser.add_argument("--secret", help=argparse.SUPPRESS)
    assert "".join(manual.sections(parser, level=2)) == (
        "## hushmq thing\n"
        "| option | |\n|---|---|\n"
        "| `FILE` | the file |\n"
        "| `--kind a\\|b` | one\\|other (default a) |\n"
        "| `--span LOW HIGH` | a range (required) |\n"
        "```text\nexamples:\n  hushmq thing\n```\n"
    )
