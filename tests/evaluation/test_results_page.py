"""The page of results: losses first, only what is marked, only from a full run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hushmq.evaluation import results_page as page
from hushmq.evaluation import section_list as section
from hushmq.evaluation.results_folder import SectionResult, write
from hushmq.evaluation.section_report import Finding, Picture, Table
from hushmq.explain.figure import Curve, Figure, Panel

LINE = Figure("A line", [Panel("up", "x", "y", [Curve("one", [0, 1], [0, 1])])])
ITEMS = (
    Table("kept", "Kept", ("a",), [(1.5,)], main=True),
    Table("left", "Left out", ("a",), [(2.5,)]),
    Picture("drawn", LINE, main=True),
    Picture("undrawn", LINE),
    Finding("it works"),
    Finding("it is slow", kind="loses"),
    Finding("it is small", kind="leads"),
)


def result(*, quick: bool = False) -> SectionResult:
    return SectionResult("one", "One thing", "About\nit.", "done", "", quick, 1, 2.0, {"Python": "3"}, ITEMS)


@pytest.fixture
def only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single section."""
    monkeypatch.setattr(page, "SECTIONS", {"one": section.SECTIONS["composition"]})


@pytest.mark.usefixtures("only_one")
def test_page(tmp_path: Path) -> None:
    """Losses come first; tables and figures that are not marked stay out; figures are copied."""
    write(result(), tmp_path / "results")
    assert page.main([str(tmp_path / "results"), "--page", str(tmp_path / "docs" / "results.md")]) == 0
    text = (tmp_path / "docs" / "results.md").read_text()
    assert (
        text.index("it is slow ([One thing](#one-thing))")
        < text.index("## One thing")
        < text.index("- it works")
    )
    assert "**Kept**" in text
    assert "Left out" not in text
    assert "![A line](results/one-drawn.png)" in text
    assert [path.name for path in (tmp_path / "docs" / "results").iterdir()] == ["one-drawn.png"]


@pytest.mark.usefixtures("only_one")
def test_a_quick_run_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A quick run, or a missing section, is refused in one line and nothing is written."""
    target = tmp_path / "results.md"
    assert page.main([str(tmp_path), "--page", str(target)]) == 2
    assert "has no one: run hushmq evaluate" in capsys.readouterr().err
    write(result(quick=True), tmp_path)
    assert page.main([str(tmp_path), "--page", str(target)]) == 2
    assert "has only a quick run of one" in capsys.readouterr().err
    assert not target.exists()


def test_the_committed_page() -> None:
    """Every figure it shows is there and small, none is left over, and it says where we lose."""
    text = page.PAGE.read_text()
    shown = set(re.findall(r"\]\(results/([^)]+\.png)\)", text))
    assert shown == {path.name for path in (page.PAGE.parent / "results").iterdir()}
    for name in shown:
        assert (page.PAGE.parent / "results" / name).stat().st_size < 60_000, name
    lost = text.split("## Where we lose")[1].split("\n## ")[0]
    assert lost.count("\n- ") >= 3
    for anchor in re.findall(r"\]\(#([^)]+)\)", text):
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert anchor in {page._anchor(heading) for heading in headings}
