"""The page on faults names a test for every fault: each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def _check_named(page: str) -> int:
    """Every test that a page names exists; returns how many it names."""
    named = NAMED.findall(page)
    for path, test in named:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert f"def {test}(" in source if test else "def test_" in source, (path, test)
    return len(named)


def test_every_test_that_the_threat_model_names_exists() -> None:
    """What an attacker cannot do is what a test tried."""
    assert _check_named((ROOT / "docs/threat-model.md").read_text(encoding="utf-8")) > 10


def test_every_test_that_the_page_names_exists() -> None:
    """A fault whose test was renamed or deleted is a promise without evidence."""
    page = (ROOT / "docs/faults.md").read_text(encoding="utf-8")
    rows = page.split("## Every fault")[1].split("\n## ")[0].split("|---|")[-1].splitlines()
    for row in [line for line in rows if line.startswith("| ")]:
        assert NAMED.search(row), row
    assert _check_named(page) > 15
