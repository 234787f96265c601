"""`make bench`: every module is registered, rows come as they are measured, and a failure does not end the run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType

import pytest

from hushmq.evaluation import benchmarks
from hushmq.evaluation.benchmarks.__main__ import BENCHMARKS, HELPERS, main
from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.benchmark_run import Run, earlier_runs, last_value, read_run

PACKAGE = Path(benchmarks.__file__).parent


def test_every_module_is_a_benchmark_or_a_helper() -> None:
    """No module is forgotten, none is both."""
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert modules == {*BENCHMARKS.values(), *HELPERS}
    assert len(modules) == len(BENCHMARKS) + len(HELPERS)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_can_be_run_without_arguments(name: str) -> None:
    """Its module has `run`, and what it takes has defaults."""
    run = import_module(f"{benchmarks.__name__}.{BENCHMARKS[name]}").run
    assert all(one.default is not Parameter.empty for one in signature(run).parameters.values())


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Two benchmarks in the place of all: "good" with two rows, "bad" with one and then an error.

    The list has what had been printed when the second row of "good" was asked for.
    """
    printed: list[str] = []

    def good() -> Iterator[Row]:
        yield Row("first", 10.0, "s")
        printed.append(capsys.readouterr().out)
        yield Row("second", 4000.0, "/s", "a peer", 2.0, "≥ 1,000 /s")

    def bad() -> Iterator[Row]:
        yield Row("only", None, "s", "not here: hushmq[peers]")
        raise RuntimeError("the sides disagree")

    registry = {}
    for name, run in (("bad", bad), ("good", good)):
        module = ModuleType(name, f"What {name} measures.\n\nAnd how.")
        module.run = run  # type: ignore[attr-defined]  # a module made here
        monkeypatch.setitem(sys.modules, f"{benchmarks.__name__}.{name}_speed", module)
        registry[name] = f"{name}_speed"
    monkeypatch.setattr("hushmq.evaluation.benchmarks.__main__.BENCHMARKS", registry)
    return printed


def test_a_row_is_printed_before_the_next_is_measured(measured: list[str], tmp_path: Path) -> None:
    assert main(["good", "--out", str(tmp_path)]) == 0
    (before,) = measured
    assert "good: first" in before
    assert "second" not in before


def test_one_that_fails_does_not_end_the_run(
    measured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its rows so far are kept, the others run, the last lines name it, and the exit code is 1."""
    assert main(["--out", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "good: second" in out
    assert "not here: hushmq[peers]" in "".join(measured)
    assert "benchmarks: bad failed: RuntimeError: the sides disagree" in err
    (path,) = tmp_path.glob("*.json")
    kept = read_run(path)
    assert kept.failed == {"bad": "RuntimeError: the sides disagree"}
    assert [row.name for row in kept.results["bad"]] == ["only"]
    assert len(kept.results["good"]) == 2


def test_the_file_says_where_it_was_measured(measured: list[str], tmp_path: Path) -> None:
    main(["good", "--out", str(tmp_path)])
    (path,) = tmp_path.glob("*.json")
    machine = json.loads(path.read_text())["machine"]
    assert machine["cores"] >= 1
    assert machine["python"].startswith("3.")
    assert machine["versions"]["hushmq"]
    assert set(machine) >= {"time", "commit", "load", "processor", "system"}


def test_a_row_is_shown_beside_the_last_run_that_has_it(
    measured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest has only other benchmarks: the one before it counts, and a file that is no run does not."""
    Run({}, {"good": [Row("second", 2000.0, "/s")]}).write(tmp_path / "2026-01-01T000000Z.json")
    Run({}, {"other": [Row("second", 1.0, "/s")]}).write(tmp_path / "2026-01-02T000000Z.json")
    (tmp_path / "2026-01-03T000000Z.json").write_text("[]")
    assert main(["good", "--out", str(tmp_path)]) == 0
    assert "2,000 (+100%)" in capsys.readouterr().out
    assert last_value(earlier_runs(tmp_path), "good", "second") == 4000.0
    assert last_value(earlier_runs(tmp_path), "good", "third") is None


def test_a_run_may_be_compared_with_any_other(
    measured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--against FILE; one that is missing or no run is refused in one line, before anything is measured."""
    kept = tmp_path / "kept.json"
    Run({}, {"good": [Row("first", 20.0, "s")]}).write(kept)
    out = tmp_path / "runs"
    assert main(["good", "--out", str(out), "--against", str(kept)]) == 0
    assert "20 (-50%)" in "".join(measured)
    kept.write_text('{"results": []}')
    for path in (kept, tmp_path / "none.json"):
        capsys.readouterr()
        assert main(["good", "--out", str(out), "--against", str(path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert str(path) in line


def test_json_is_all_that_is_printed(
    measured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One object by benchmark on stdout; table and progress are on stderr."""
    assert main(["good", "--json", "--out", str(tmp_path)]) == 0
    assert json.loads("".join(measured) + capsys.readouterr().out)["good"][1]["ratio"] == 2.0


def test_the_list_says_what_each_measures(
    measured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--list", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "bad         What bad measures.",
        "good        What good measures.",
    ]
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "speed", "--out", str(tmp_path)]) == 2
    assert "no speed: choose from" in capsys.readouterr().err
