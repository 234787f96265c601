"""Tables of published rows inside other documents.

Between a line `<!-- measured: NAME -->` and a line `<!-- end of measured -->` a document has the rows of that
benchmark; `<!-- measured: NAME: some words -->` has only those whose names contain the words. `make docs` fills them.
"""

from __future__ import annotations

import re
from pathlib import Path

from hushmq.evaluation.benchmarks.benchmark_run import ROOT
from hushmq.evaluation.benchmarks.published_rows import Published, read_published, table

_BLOCK = re.compile(
    r"^<!-- measured: (?P<name>[\w-]+)(?:: (?P<words>[^\n]*?))? -->\n(?P<text>.*?)^<!-- end of measured -->$",
    re.MULTILINE | re.DOTALL,
)


def documents(root: Path = ROOT) -> dict[Path, str]:
    """Every document with such a table, relative to the repository, and its text with all of them filled in."""
    published = read_published(root / "docs" / "benchmarks.json")
    found = {}
    for path in sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("deploy/*.md")]):
        text = path.read_text(encoding="utf-8")
        if _BLOCK.search(text):
            found[path.relative_to(root)] = filled(text, published)
    return found


def filled(text: str, published: dict[str, Published]) -> str:
    """The text with the rows of every block as they are published; ValueError where there are none."""

    def fill(match: re.Match[str]) -> str:
        name, words = match["name"], match["words"] or ""
        one = published.get(name)
        rows = [row for row in one.rows if words in row.name] if one else []
        if one is None or not rows:
            raise ValueError(f"docs/benchmarks.json has no row of {name} with {words!r} in its name")
        begin = match[0].splitlines()[0]
        return (
            f"{begin}\n{table(rows)}\nMeasured with `make bench ARGS={name}`: {one.conditions}.\n"
            "<!-- end of measured -->"
        )

    return _BLOCK.sub(fill, text)
