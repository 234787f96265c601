"""docs/paper as a PDF: `python -m hushmq.evaluation.paper_document`, or `make paper`.

The paper is Markdown in which every measured number is a reference into docs/results.md, which `make results` writes:

    {value: table's title; column=value, …; column}     one cell of the row that has these values
    {table: title; column, column, …; column=value & column=value|…}
                                                         these columns, of the rows that have one such set of values
    {finding: words}                                     the finding that has these words
    <!-- if: section's title --> … <!-- end -->          left out where the page has no such section

It is typeset by pandoc and typst, which pip installs (`make paper` does); without them the Markdown is written only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from hushmq.broker.contract.problem import Problem

ROOT = Path(__file__).resolve().parents[1]
PAPER = ROOT / "docs" / "paper" / "paper.md"
RESULTS = ROOT / "docs" / "results.md"
BUILT = ROOT / "build" / "paper"

REFERENCE = re.compile(r"\{(value|table|finding): ([^{}]*)\}")
PASSAGE = re.compile(r"<!-- if: (.*?) -->\n(.*?)<!-- end -->\n", re.DOTALL)
TABLE = re.compile(r"^\*\*(.+)\*\*\n\n((?:\|.*\n)+)", re.MULTILINE)


def filled(paper: str, results: str) -> str:
    """The paper with every reference resolved; Problem names one that the results do not have."""
    tables = {title: _rows(text) for title, text in TABLE.findall(results)}
    sections = set(re.findall(r"^## (.+)$", results, re.MULTILINE))
    paper = PASSAGE.sub(lambda found: found[2] if found[1] in sections else "", paper)
    findings = dict.fromkeys(
        line.removeprefix("- ").removeprefix("**We lose:** ")
        for line in results[results.index("\n## Where we lead") :].splitlines()
        if line.startswith("- ")
    )

    def resolved(found: re.Match[str]) -> str:
        kind, text = found.groups()
        # A paragraph may break a line within a reference.
        words = " ".join(text.split())
        if kind == "finding":
            said = [one for one in findings if words in one and "](#" not in one]
            if len(said) != 1:
                raise Problem(
                    f"{{finding: {words}}}: {len(said)} findings in docs/results.md have these words"
                )
            return said[0]
        title, *rest = words.split("; ")
        if title not in tables:
            raise Problem(f"{{{kind}: {title}}}: docs/results.md has no such table")
        return _cell(tables[title], *rest) if kind == "value" else _part(tables[title], *rest)

    return REFERENCE.sub(resolved, paper)


def _rows(text: str) -> list[dict[str, str]]:
    heads, _, *lines = (
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines()
    )
    return [dict(zip(heads, line, strict=True)) for line in lines]


def _has(row: dict[str, str], condition: str) -> bool:
    column, _, value = condition.partition("=")
    if column not in row:
        raise Problem(f"{condition}: the table has no column {column}")
    return row[column] == value


def _cell(rows: list[dict[str, str]], condition: str, column: str) -> str:
    found = [row for row in rows if _has(row, condition)]
    if len(found) != 1 or column not in found[0]:
        raise Problem(f"{condition}; {column}: {len(found)} rows, or no such column")
    return found[0][column]


def _part(rows: list[dict[str, str]], columns: str, conditions: str) -> str:
    """Some columns, named in their order; names may have commas."""
    wanted, left = [], columns
    while left:
        fitting = [one for one in rows[0] if left == one or left.startswith(f"{one}, ")]
        if not fitting:
            raise Problem(f"{left}: the table has no such column")
        wanted.append(max(fitting, key=len))
        left = left[len(wanted[-1]) + 2 :]
    kept = [
        row
        for row in rows
        if any(all(_has(row, one) for one in each.split(" & ")) for each in conditions.split("|"))
    ]
    if not kept:
        raise Problem(f"{conditions}: no row of the table")
    sides = ["---:" if all(map(_is_number, (row[one] for row in kept))) else ":---" for one in wanted]
    lines = [wanted, sides, *([row[one] for one in wanted] for row in kept)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _is_number(cell: str) -> bool:
    return cell == "–" or re.fullmatch(r"[-+]?[\d.,]+(e[-+]?\d+)?", cell) is not None


TEMPLATE = """
#set page(paper: "a4", margin: (x: 2.4cm, y: 2.4cm), numbering: "1")
#set text(size: 10.5pt, lang: "en")
#set par(justify: true, leading: 0.62em)
#set heading(numbering: "1.1")
#show heading: set block(above: 1.1em, below: 0.6em)
#show figure.where(kind: image): set figure(placement: auto)
#show table: set text(size: 7.5pt, hyphenate: false)
#show table: set par(justify: false)
#set table(stroke: 0.3pt + gray, inset: 3pt)
#let horizontalrule = line(length: 100%)
#align(center)[#text(size: 16pt, weight: "bold")[TITLE] #v(0.3em) AUTHOR]
#block(inset: (x: 1cm))[#text(size: 9pt)[*Abstract.* ABSTRACT]]
"""


def typeset(paper: str, out: Path) -> int:
    """Write the PDF and return its pages; ImportError where pandoc or typst is not installed."""
    pandoc: Any = import_module("pypandoc")
    typst: Any = import_module("typst")
    _, head, body = paper.split("---\n", 2)
    named = dict(re.findall(r'^(title|author): "(.*)"$', head, re.MULTILINE))
    abstract = " ".join(head.split("abstract: |\n", 1)[1].split())
    body = re.sub(r"\]\(\.\./results/", "](results/", body)
    # Without a limit to a line's length pandoc leaves the widths of columns to typst.
    options: dict[str, Any] = {
        "to": "typst",
        "format": "markdown-implicit_figures",
        "extra_args": ["--columns=1000"],
    }
    front = TEMPLATE.replace("TITLE", named["title"]).replace("AUTHOR", named["author"])
    front = front.replace("ABSTRACT", pandoc.convert_text(abstract, **options))
    body = re.sub(r"(?<!\$)\be\^ε", r"$e^\\varepsilon$", body)
    text = front + pandoc.convert_text(body, **(options | {"format": "markdown"}))
    source = out.parent / "paper.typ"
    source.write_text(text, encoding="utf-8")
    figures = out.parent / "results"
    if not figures.exists():
        figures.symlink_to(ROOT / "docs" / "results")
    typst.compile(str(source), output=str(out), root=str(ROOT))
    return len(re.findall(rb"/Type\s*/Page\b", out.read_bytes()))


def main(argv: Sequence[str] | None = None) -> int:
    """Write build/paper/paper.md, and paper.pdf where it can be typeset."""
    text = filled(PAPER.read_text(encoding="utf-8"), RESULTS.read_text(encoding="utf-8"))
    BUILT.mkdir(parents=True, exist_ok=True)
    (BUILT / "paper.md").write_text(text, encoding="utf-8")
    try:
        pages = typeset(text, BUILT / "paper.pdf")
    except ImportError as missing:
        print(
            f"build/paper/paper.md: written; no PDF: {missing.name} is not installed (make paper installs it)"
        )
        return 0
    print(f"build/paper/paper.pdf: {pages} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
