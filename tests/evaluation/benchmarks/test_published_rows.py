"""Documents quote rows of a run with its conditions; nobody types them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.benchmark_run import Run, machine_facts
from hushmq.evaluation.benchmarks.measured_blocks import documents, filled
from hushmq.evaluation.benchmarks.published_rows import missed, publish, read_published, table


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository in which the benchmark "draw" is published and one document quotes it."""
    (tmp_path / "docs").mkdir()
    run = Run(
        machine_facts(now=0.0), {"draw": [Row("one", 3.0, "ms", "a|b", 2.0, "≤ 2 ms"), Row("two", 1e4, "/s")]}
    )
    assert publish(run, tmp_path / "docs" / "benchmarks.json") == ["draw"]
    (tmp_path / "README.md").write_text(
        "before\n<!-- measured: draw: one -->\n<!-- end of measured -->\nafter\n"
    )
    return tmp_path


def test_a_run_replaces_the_rows_it_has_measured(root: Path) -> None:
    """And leaves those of other benchmarks, and of one that failed, as they were."""
    path = root / "docs" / "benchmarks.json"
    later = Run(
        machine_facts(now=86_400.0), {"load": [Row("x", 1.0, "s")], "draw": []}, {"draw": "it failed"}
    )
    assert publish(later, path) == ["load"]
    found = read_published(path)
    assert [row.name for row in found["draw"].rows] == ["one", "two"]
    assert found["draw"].conditions.startswith("1970-01-01, commit ")
    assert found["load"].conditions.startswith("1970-01-02, commit ")


def test_a_block_has_the_rows_it_asks_for(root: Path) -> None:
    """With the conditions of their run; filling it again changes nothing."""
    (text,) = documents(root).values()
    assert "| one | 3 ms | a\\|b | 2 | ≤ 2 ms: missed |\n" in text
    assert "two" not in text
    assert "`make bench ARGS=draw`: 1970-01-01" in text
    assert text.startswith("before\n")
    assert text.endswith("<!-- end of measured -->\nafter\n")
    assert filled(text, read_published(root / "docs" / "benchmarks.json")) == text


def test_a_block_without_rows_is_an_error(root: Path) -> None:
    (root / "README.md").write_text("<!-- measured: draw: three -->\n<!-- end of measured -->\n")
    with pytest.raises(ValueError, match="no row of draw with 'three'"):
        documents(root)


@pytest.mark.parametrize(
    ("value", "unit", "aim", "expected"),
    [
        (5.0, "ms", "≤ 5 ms", False),
        (5.1, "ms", "≤ 5 ms", True),
        (900.0, "/s", "≥ 1,000 /s", True),
        (1.2, "exponent", "≤ 1.1", True),
        (2.0, "%", "< 2 %", True),
        (1.9, "%", "< 2 %", False),
        (5.1, "ms", "≤ 5 s", False),
        (5.1, "ms", "flat", False),
        (None, "ms", "≤ 5 ms", False),
    ],
)
def test_an_aim_is_missed(value: float | None, unit: str, aim: str, expected: bool) -> None:
    """Only where it is a bound in the unit that was measured."""
    assert missed(Row("x", value, unit, aim=aim)) is expected


def test_an_empty_table() -> None:
    assert table([]).count("\n") == 2
