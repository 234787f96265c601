"""Mutants are what they say, the runner tells survivors from others, and the page is that of the last results."""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path

import pytest

from tests.mutation.mutants import mutants
from tests.mutation.mutation_page import EXPLAINED, PAGE, RESULTS, ROOT, explained, page
from tests.mutation.run_mutants import KILLED, SURVIVED, TARGETS, try_mutant

SOURCE = '''"""Words."""
LIMIT: float = 2.0


def within(x: float) -> bool:
    """Words."""
    if x < 0:
        raise ValueError(f"{x + 1} is below 0")
    return x <= max(LIMIT, 1)
'''


def test_every_place_has_its_fault() -> None:
    """Comparisons, constants, calls, conditions and results; no words, no annotations, no texts of errors."""
    found = {one.fault.replace("\n", " ") for one in mutants(SOURCE)}
    assert {"2.0 → 2.021", "x < 0 → x <= 0", "0 → 1", "x <= max(LIMIT, 1) → x < max(LIMIT, 1)"} <= found
    assert {"max(LIMIT, 1) → min(LIMIT, 1)", "1 → 2", "return x <= max(LIMIT, 1) → return None"} <= found
    assert len(found) == 8
    assert all(ast.unparse(one.tree) != ast.unparse(ast.parse(SOURCE)) for one in mutants(SOURCE))


def test_a_mutant_is_noticed_by_a_test_that_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And only by such a one: the module on disk stays as it is."""
    (tmp_path / "one_module.py").write_text(SOURCE)
    (tmp_path / "test_good.py").write_text(
        "import one_module\ndef test_it():\n    assert one_module.within(2.0)\n"
    )
    (tmp_path / "test_bad.py").write_text("import one_module\ndef test_it():\n    one_module.within(1.0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (fault,) = (one for one in mutants(SOURCE) if one.fault.startswith("x <= "))
    assert try_mutant("one_module", fault, [str(tmp_path / "test_good.py")], patience=100) == KILLED
    assert try_mutant("one_module", fault, [str(tmp_path / "test_bad.py")], patience=100) == SURVIVED
    assert (tmp_path / "one_module.py").read_text() == SOURCE


def test_targets_and_their_tests_exist() -> None:
    """A module that was renamed is not forgotten."""
    for file, tests in TARGETS.items():
        assert all((ROOT / one).is_file() for one in (file, *tests)), file


def test_every_survivor_is_explained_and_every_explanation_is_of_a_line() -> None:
    """No mutant survives in silence; a line that is gone needs no explanation."""
    for file, found in json.loads(RESULTS.read_text(encoding="utf-8")).items():
        for one in found["survivors"]:
            assert explained(file, one["line"], one["fault"]), f"{file}: {one['line']}: {one['fault']}"
    for one in tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get("survivor", []):
        lines = [line.strip() for line in (ROOT / one["file"]).read_text(encoding="utf-8").splitlines()]
        assert one["line"] in lines, f"{one['file']} no longer has the line {one['line']}"


def test_the_page_is_that_of_the_results() -> None:
    """`make mutants` writes both."""
    assert PAGE.read_text(encoding="utf-8") == page(json.loads(RESULTS.read_text(encoding="utf-8")))
