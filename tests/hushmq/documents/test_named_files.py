"""A file of the repository that a document, a docstring or a comment names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hushmq.documents.links import documents

ROOT = Path(__file__).parents[3]
FOLDERS = (
    "agent",
    "broker",
    "calibrator",
    "deploy",
    "docs",
    "evaluation",
    "examples",
    "hushmq",
    "pufferfish",
    "tests",
)
NAMED = re.compile(rf"(?<![\w/.-])(?:\.\./)*((?:{'|'.join(FOLDERS)})/[\w/-]+\.(?:json|md|png|py|sh|svg))\b")
PACKAGES = ("agent", "broker", "calibrator", "evaluation", "hushmq", "pufferfish")


def missing(text: str) -> set[str]:
    """The files that a text names and that do not exist."""
    return {name for name in NAMED.findall(text) if not (ROOT / name).exists()}


@pytest.mark.parametrize("document", documents(ROOT), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_named_in_a_document_exist(document: Path) -> None:
    """Whatever looks like a file below a folder of the repository: `agent/sources/tick.py`."""
    assert missing(document.read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_files_named_in_the_code_exist(package: str) -> None:
    """A docstring or a comment leads to a file that is there."""
    found = {
        str(file.relative_to(ROOT)): names
        for file in (ROOT / package).rglob("*.py")
        if (names := missing(file.read_text(encoding="utf-8")))
    }
    assert found == {}
