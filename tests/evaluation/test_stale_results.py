"""A results page that is older than the code says so, and one that is not does not."""

from __future__ import annotations

from hushmq.evaluation.section_list import SECTIONS
from hushmq.evaluation.stale_results import described, noted

PAGE = "# Results\n\nAbout it.\n\n## Where we lose\n\n- Once.\n\n## One\n\nWhat one is.\n\n- A finding.\n"


def test_a_fresh_page_is_left_alone() -> None:
    """Also after it was older for a while."""
    assert noted(PAGE, {"one": ("One", "What one is.")}) == PAGE
    older = noted(PAGE, {"one": ("One", "What one has become.")})
    assert noted(older, {"one": ("One", "What one is.")}) == PAGE


def test_what_is_missing_or_older_is_named() -> None:
    """Each section by its name, once, however often the page is noted."""
    sections = {"one": ("One", "What one has become."), "two": ("Two", "Nothing yet.")}
    page = noted(PAGE, sections)
    assert "It lacks the sections `two`. The sections `one` have changed since." in page
    assert noted(page, sections) == page
    assert page.index("older than the code") < page.index("## Where we lose")


def test_every_section_describes_itself() -> None:
    """As a constant, so that it can be read without importing what the section needs."""
    assert described().keys() == SECTIONS.keys()
