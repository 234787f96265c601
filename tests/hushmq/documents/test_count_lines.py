"""Lines of code are counted without blank lines, comments and docstrings."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.documents.count_lines import PACKAGES, code_lines, size, table


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ('"""A module."""\n', 0),
        ("x = 1  # one\n\n# nothing\n", 1),
        ('x = """two\nlines"""\n', 2),
        ('def f() -> None:\n    """Docstring\n    of two lines."""\n    return None\n', 2),
        ('X = 1\n"""What X is."""\n', 1),
        ("f(\n    1,\n)\n", 3),
    ],
)
def test_lines_of_code(text: str, lines: int) -> None:
    """Each line with a token that is neither a comment nor a docstring."""
    assert code_lines(text) == lines


def test_a_table_of_two_copies(tmp_path: Path) -> None:
    """One row for each package, the copies' numbers separated by an arrow."""
    for number, copy in enumerate(("before", "after"), 1):
        for package in PACKAGES:
            (tmp_path / copy / package).mkdir(parents=True)
            (tmp_path / copy / package / "a.py").write_text("x = 1\n" * number)
    assert size(tmp_path / "after" / "agent").lines == 2
    _, _, *rows = table([tmp_path / "before", tmp_path / "after"])
    assert rows[2] == "| `agent` | 1 → 1 | 1 → 1 | 1 → 2 | 1 → 2 | 1 → 2 |"
