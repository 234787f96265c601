"""The paper takes its numbers from the results page: every reference has one place there, every figure exists."""

from __future__ import annotations

import re

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.evaluation.paper_document import PAPER, RESULTS, ROOT, filled

PAGE = """# Results

## Where we lead

- 3 of 4. ([A section](#a-section))

## A section

- 3 of 4.
- **We lose:** 1 of 4.

**A table**

| chain, kind | ε | error |
|---|---:|---:|
| one | 1 | 0.25 |
| two | 1 | 0.5 |

"""


def test_the_paper_has_all_its_numbers() -> None:
    """No reference is left, none is unknown: what `make results` renames breaks this test and not a reader's trust."""
    text = filled(PAPER.read_text(encoding="utf-8"), RESULTS.read_text(encoding="utf-8"))
    assert "{" not in re.sub(r"\$\$.*?\$\$|\$[^$]*\$|\{width=\d+%\}", "", text, flags=re.DOTALL)
    figures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert len(figures) >= 6
    assert all((ROOT / "docs" / "paper" / one).resolve().is_file() for one in figures)


def test_no_measured_number_is_typed() -> None:
    """Outside of mathematics and references the paper has no decimal number, but for what recordings and tests are."""
    text = re.sub(
        r"\$\$.*?\$\$|\$[^$]*\$|\{[^}]*\}",
        "",
        PAPER.read_text(encoding="utf-8").split("# References")[0],
        flags=re.DOTALL,
    )
    assert re.findall(r"\d*\.\d+", text) == [".02", ".28"]  # the range of q, which is in docs/estimation.md


def test_references_are_resolved() -> None:
    """A cell, some rows and columns, a finding, and a passage for a section that is there or not."""
    text = "{value: A table; chain, kind=two; error} {finding: 3 of}\n{table: A table; chain, kind, error; ε=1}\n"
    text += (
        "<!-- if: A section -->\nkept\n<!-- end -->\n<!-- if: Another -->\n{finding: none}\n<!-- end -->\n"
    )
    expected = "0.5 3 of 4.\n| chain, kind | error |\n| :--- | ---: |\n| one | 0.25 |\n| two | 0.5 |\nkept\n"
    assert filled(text, PAGE) == expected
    assert filled("{finding: 1 of 4}", PAGE) == "1 of 4."


@pytest.mark.parametrize(
    "text",
    [
        "{value: No table; ε=1; error}",
        "{value: A table; ε=1; error}",
        "{value: A table; chain, kind=one; nothing}",
        "{value: A table; colour=red; error}",
        "{table: A table; colour; ε=1}",
        "{table: A table; error; ε=9}",
        "{finding: of 4}",
        "{finding: 5 of 4}",
    ],
)
def test_what_the_results_do_not_have_is_refused(text: str) -> None:
    """With the reference named, not with an empty place in the paper."""
    with pytest.raises(Problem):
        filled(text, PAGE)
