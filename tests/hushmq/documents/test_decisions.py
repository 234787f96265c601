"""Decisions are numbered, listed, and say why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "docs" / "decisions"
PAGES = sorted(FOLDER.glob("[0-9]*.md"))


def test_numbers_have_no_gaps() -> None:
    """From 1 on, each once: a decision that is revised gets a new number."""
    assert [int(page.name[:4]) for page in PAGES] == list(range(1, len(PAGES) + 1))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_says_why_and_is_listed(page: Path) -> None:
    """Its title has its number and stands in the index; context, decision and consequences are there."""
    text = page.read_text(encoding="utf-8")
    heading = re.match(r"# (\d+)\. (.+)\n", text)
    assert heading is not None
    number, title = heading.groups()
    assert number == page.name[:4].lstrip("0")
    assert f"| {number} | [{title}]({page.name}) |" in (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Consequences"))
