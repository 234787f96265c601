"""The page of results: losses first, only what is marked, only what a full run has published."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hushmq.evaluation import published_results as published
from hushmq.evaluation import results_page as page
from hushmq.evaluation import section_list as section
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Finding, Item, Picture, Table
from hushmq.explain.figure import Curve, Figure, Panel

LINE = Figure("A line", [Panel("up", "x", "y", [Curve("one", [0, 1], [0, 1])])])


class One:
    """A section with something of each kind; `value` is what it computes."""

    ABOUT = "About\nit."
    value = 1.5
    runs: list[str]
    pictures = False

    @staticmethod
    def run(job: Job) -> Iterator[Item]:
        One.runs.append("quick" if job.quick else "full")
        yield Table("kept", "Kept", ("a", "b"), [(One.value, None if job.quick else 1.0)], main=True)
        yield Table("left", "Left out", ("a",), [(2.5,)])
        if One.pictures:
            yield Picture("drawn", LINE, main=True)
            yield Picture("undrawn", LINE)
        yield Finding("it works")
        yield Finding("it is slow", kind="loses")
        yield Finding("it is small", kind="leads")


@dataclass(frozen=True, slots=True)
class Listed:
    title: str = "One thing"
    module: str = "hushmq.evaluation.section_report"

    def load(self) -> type:
        return One


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A single section, published in a folder of its own; the runs that it has had."""
    One.runs = []
    monkeypatch.chdir(tmp_path)
    for module in (page, published, section):
        monkeypatch.setattr(module, "SECTIONS", {"attacks": Listed()})
    monkeypatch.setattr("hushmq.evaluation.section_runner.SECTIONS", {"attacks": Listed()})
    monkeypatch.setattr(published, "RECORDS", tmp_path / "docs" / "results")
    monkeypatch.setattr(published, "UNSEEDED", frozenset())
    digest = iter(map(str, range(100)))
    monkeypatch.setattr(published, "sources", lambda _: next(digest))
    monkeypatch.setattr(published, "ROOT", tmp_path)
    return One.runs


@pytest.mark.usefixtures("runs")
def test_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses come first; tables and figures that are not marked stay out; figures are copied."""
    monkeypatch.setattr(One, "pictures", True)
    assert page.main([]) == 0
    text = (tmp_path / "docs" / "results.md").read_text()
    assert (
        text.index("it is slow ([One thing](#one-thing))")
        < text.index("## One thing")
        < text.index("- it works")
    )
    assert "**Kept**" in text
    assert "Left out" not in text
    assert "![A line](results/attacks-drawn.png)" in text
    assert sorted(path.name for path in (tmp_path / "docs" / "results").iterdir()) == [
        "attacks-drawn.png",
        "attacks.json",
    ]
    assert (tmp_path / "docs" / "attacks.md").read_text().startswith("# One thing\n")


def test_only_what_is_stale_is_run_in_full(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Other sources ask for a quick run, other numbers or words of it for a full one; a named section is run anyhow."""
    assert page.main([]) == 0
    assert runs == ["quick", "full"]
    runs.clear()
    assert page.main([]) == 0
    assert runs == ["quick"]
    runs.clear()
    monkeypatch.setattr(One, "value", 1.51)
    assert page.main([]) == 0
    assert runs == ["quick", "full"]
    runs.clear()
    monkeypatch.setattr(One, "ABOUT", "Something else.")
    assert page.main([]) == 0
    assert page.main(["attacks"]) == 0
    assert runs == ["quick", "full"] * 2
    runs.clear()
    monkeypatch.setattr(published, "sources", lambda _: published.read()["attacks"]["sources"])
    assert page.main([]) == 0
    assert runs == []


def test_what_cannot_be_run_in_full_is_not_published(
    runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recording or a package that is missing leaves the record as it was; one line says so."""

    def partly(job: Job) -> Iterator[Item]:
        del job
        yield Finding("no such recording", kind="skipped")

    monkeypatch.setattr(One, "run", partly)
    assert page.main([]) == 2
    assert "attacks cannot be published: no such recording" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        page.main(["none"])
    assert "unknown section 'none'" in capsys.readouterr().err
    assert not (tmp_path / "docs").exists()
    assert runs == []


def test_numbers_are_compared_as_they_are_read() -> None:
    """A thousandth is not a difference, a hundredth is; an empty cell is one that a package was missing for."""

    def made(*cells: object) -> dict[str, object]:
        table = {"is": "Table", "name": "t", "columns": ["a", "b"], "rows": [list(cells)], "main": True}
        return {"name": "wsc", "title": "T", "about": "A", "items": [table]}

    record = {**made(), "quick": published._tables(made(1.0, "x"))}
    assert published.stale(record, made(1.0001, "x")) == ""
    assert published.stale(record, made(None, "x")) == ""
    assert "a was 1.0 and is 1.01" in published.stale(record, made(1.01, "x"))
    assert "b was x and is y" in published.stale(record, made(1.0, "y"))
    assert "never been published" in published.stale(None, made(1.0, "x"))


def test_a_digest_is_of_all_that_is_imported() -> None:
    """Also of what a module imports by way of others, whether a name or a module."""
    (text,) = (path.read_text() for path in [published.ROOT / "evaluation" / "papers" / "swc_power.py"])
    assert "hushmq.evaluation.sections.compared_methods" in published._imported(text)
    assert len({published.sources(name) for name in section.SECTIONS}) == len(section.SECTIONS)


def test_the_committed_page() -> None:
    """Every figure it shows is there and small, none is left over; it says where we lose, and what is not measured."""
    text = (published.ROOT / page.PAGE).read_text()
    shown = set(re.findall(r"\]\(results/([^)]+\.png)\)", text))
    assert shown == {path.name for path in published.RECORDS.glob("*.png")}
    for name in shown:
        assert (published.RECORDS / name).stat().st_size < 60_000, name
    for name in section.SECTIONS:
        assert name in published.read() or f"`{name}`" in text.split(page.NOT_YET)[1].splitlines()[0], name
    lost = text.split("## Where we lose")[1].split("\n## ")[0]
    assert lost.count("\n- ") >= 3
    for anchor in re.findall(r"\]\(#([^)]+)\)", text):
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert anchor in {page._anchor(heading) for heading in headings}
