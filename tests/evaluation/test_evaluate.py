"""`hushmq evaluate` runs named sections, writes what they yield, and skips what it cannot run."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

from hushmq.evaluation import section_list as section
from hushmq.evaluation.section_list import SECTIONS, Job
from hushmq.evaluation.section_report import Finding, Item, Picture, Table, shown
from hushmq.explain.figure import Curve, Figure, Panel
from tests.hushmq.command import Hushmq, spawn


class Drawn:
    """A section that draws three numbers and says everything a section can say."""

    ABOUT = "Three numbers, drawn."

    @staticmethod
    def run(job: Job) -> Iterator[Item]:
        job.progress(0.5, "drawing")
        values = job.rng("numbers").normal(size=1 if job.quick else 3).tolist()
        yield Table("numbers", "Numbers", ("which", "value"), [(f"a|{i}", v) for i, v in enumerate(values)])
        yield Finding("they are normal")
        yield Finding("there are few", kind="loses")
        yield Picture(
            "line",
            Figure(
                "A line", [Panel("up", "x", "y", [Curve("one", [0, 1], [0, 1], low=[0, 0], high=[1, 2])])]
            ),
        )


class Wanting:
    """A section whose recording is nowhere."""

    ABOUT = "A recording."

    @staticmethod
    def run(job: Job) -> Iterator[Item]:
        yield Finding("never seen")
        job.recording("nowhere/at-all.csv.gz")


class Heavy:
    """A section whose package does not exist."""

    ABOUT = "A package."

    @staticmethod
    def run(job: Job) -> Iterator[Item]:
        __import__("no_such_package.part")
        yield Finding("never seen")


@dataclass(frozen=True, slots=True)
class Listed:
    """As `EvaluationSection`, with the module at hand."""

    title: str
    module: type

    def load(self) -> type:
        return self.module


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections that need nothing, in place of the real ones."""
    monkeypatch.setitem(section.SECTIONS, "drawn", Listed("Drawn numbers", Drawn))
    monkeypatch.setitem(section.SECTIONS, "wanting", Listed("Wanting", Wanting))
    monkeypatch.setitem(section.SECTIONS, "heavy", Listed("Heavy", Heavy))


@pytest.mark.usefixtures("samples")
def test_files_tell_where_they_are_from(hushmq: Hushmq, tmp_path: Path) -> None:
    """Markdown, CSV, PNG and JSON each carry seed, versions and time."""
    answer = hushmq("evaluate", "drawn", "--out", tmp_path / "r", "--seed", 7, "--json")
    assert answer.code == 0
    (made,) = answer.json["sections"]
    assert made["files"] == ["drawn.md", "drawn-numbers.csv", "drawn-line.png", "drawn.json"]
    text = (tmp_path / "r" / "drawn.md").read_text()
    for part in (
        "Three numbers, drawn.",
        "full run, seed 7",
        "hushmq 0",
        "numpy",
        "- **We lose:** there are few",
        "a\\|2",
    ):
        assert part in text
    first, *rest = (tmp_path / "r" / "drawn-numbers.csv").read_text().splitlines()
    assert first.startswith("# Numbers; full run, seed 7, ")
    rows = list(csv.DictReader(rest))
    assert [row["which"] for row in rows] == ["a|0", "a|1", "a|2"]
    with Image.open(tmp_path / "r" / "drawn-line.png") as image:
        assert "seed 7" in str(image.info["Description"])
        assert image.width > 500
    whole = json.loads((tmp_path / "r" / "drawn.json").read_text())
    assert whole["seed"] == 7
    assert whole["versions"]["hushmq"]
    assert whole["items"][0]["rows"][0][1] == float(rows[0]["value"])


@pytest.mark.slow
@pytest.mark.usefixtures("samples")
def test_a_seed_fixes_the_numbers(hushmq: Hushmq, tmp_path: Path) -> None:
    """The same seed gives the same numbers, another seed others, whatever ran before."""

    def numbers(*words: object) -> list[str]:
        assert hushmq("evaluate", *words, "--out", tmp_path).code == 0
        return (tmp_path / "drawn-numbers.csv").read_text().splitlines()[1:]

    assert numbers("drawn") == numbers("wanting", "drawn")
    assert numbers("drawn") != numbers("drawn", "--seed", 2)


@pytest.mark.usefixtures("samples")
def test_what_is_missing_is_skipped_and_said(hushmq: Hushmq, tmp_path: Path) -> None:
    """A missing recording or package skips its section with the reason in the output, and the rest runs."""
    answer = hushmq(
        "evaluate", "heavy", "wanting", "drawn", "--out", tmp_path, "--data", "/nowhere", "--json"
    )
    assert answer.code == 0
    status = {one["name"]: (one["status"], one["reason"]) for one in answer.json["sections"]}
    assert status["drawn"] == ("done", None)
    assert status["wanting"][0] == status["heavy"][0] == "skipped"
    assert "nowhere/at-all.csv.gz" in status["wanting"][1]
    assert "no_such_package" in status["heavy"][1]
    assert "never seen" not in (tmp_path / "wanting.md").read_text()
    assert "**Skipped:** the recording nowhere/at-all.csv.gz" in (tmp_path / "wanting.md").read_text()


@pytest.mark.usefixtures("samples")
def test_an_earlier_run_leaves_nothing(hushmq: Hushmq, tmp_path: Path) -> None:
    """A section's files are replaced, those of others are left alone."""
    (tmp_path / "drawn-old.csv").write_text("stale")
    (tmp_path / "mine.txt").write_text("kept")
    assert hushmq("evaluate", "drawn", "--out", tmp_path).code == 0
    assert not (tmp_path / "drawn-old.csv").exists()
    assert (tmp_path / "mine.txt").read_text() == "kept"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nonsense",), "unknown section 'nonsense': choose from "),
        (("--seed", "-1"), "--seed"),
        (("--seed", "x"), "'x' is not a whole number, 0 or more"),
        (("--out", "/dev/null/results"), "--out: /dev/null/results: "),
    ],
)
def test_bad_input(hushmq: Hushmq, words: tuple[str, ...], says: str) -> None:
    """One line names the option, what is wrong and what would be right; exit code 2."""
    assert says in hushmq("evaluate", *words).complaint


def test_listing(hushmq: Hushmq) -> None:
    """--list names every section and runs none."""
    assert [line.split()[0] for line in hushmq("evaluate", "--list").out.splitlines()] == list(SECTIONS)
    assert list(hushmq("evaluate", "--list", "--json").json) == list(SECTIONS)


@pytest.mark.slow
def test_without_the_extra(tmp_path: Path) -> None:
    """Where matplotlib is not installed the command says which extra has it."""
    answer = spawn("evaluate", "composition", "--out", tmp_path, without=("matplotlib",))
    assert answer.code == 2
    assert "pip install 'hushmq[evaluation]'" in answer.err


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "–"),
        (0.123456, "0.1235"),
        (123456.7, "123,457"),
        (2075259, "2,075,259"),
        (9000, "9000"),
        ("α", "α"),
        (1e9, "1e+09"),
    ],
)
def test_cells(cell: str | float | None, text: str) -> None:
    """Numbers are shown with four digits, or whole."""
    assert shown(cell) == text


def test_a_row_must_fit() -> None:
    """A table with a row of the wrong length is refused where it is made."""
    with pytest.raises(ValueError, match="table t: a row has 1 cells for 2 columns"):
        Table("t", "T", ("a", "b"), [(1,)])


def test_every_section_is_run_by_a_test() -> None:
    """The quick mode of each section is run by some test beside this one."""
    tests = "".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name in SECTIONS if f'quick("{name}"' not in tests] == []
