"""What documents and docstrings refer to exists: theorems, lemmas, sections, files, functions and tests."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = ("agent", "broker", "calibrator", "evaluation", "hushmq", "pufferfish", "tests")

SOURCES = sorted(
    chain(
        (ROOT / "docs").glob("*.md"), ROOT.glob("*.md"), *((ROOT / folder).rglob("*.py") for folder in CODE)
    )
)

STATED = {
    "Theorem": re.compile(r"^\*\*Theorem (\d+)", re.MULTILINE),
    "Lemma": re.compile(r"^\*\*Lemma (\d+)", re.MULTILINE),
    "section": re.compile(r"^## (\d+)\.", re.MULTILINE),
}
NUMBERS = r"(Theorem|Lemma|section)s? (\d+(?:(?:, | and )\d+)*)"
CITED = re.compile(rf"(theory(?:-\w+)?\.md)\)?[,:] ((?:(?:, | and )?{NUMBERS}(?: \([^)]*\))?)+)")
LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]*[./][^)#\s]*)[^)]*\)")


def citations(text: str) -> list[tuple[str, str, str]]:
    """Document, kind and number of everything cited, however the lines are broken."""
    flowing = re.sub(r"\s+(?:# )?", " ", text)
    return [
        (document, kind, number)
        for document, cited, *_ in CITED.findall(flowing)
        for kind, numbers in re.findall(NUMBERS, cited)
        for number in re.findall(r"\d+", numbers)
    ]


def missing_names(text: str, target: Path) -> list[str]:
    """The names in backticks that the file linked to neither is nor defines."""
    content = target.read_text()
    names = (name.split(".")[-1].removesuffix("()") for name in re.findall(r"`([\w.()]+)`", text))
    return [
        name
        for name in names
        if name != target.stem
        and not re.search(rf"^\s*(?:async )?(?:def|class) {name}\b|^{name}\b *[:=]", content, re.MULTILINE)
    ]


def test_citations_are_found_however_they_are_written() -> None:
    """One or several, across a line's end, in parentheses: nothing is overlooked."""
    text = (
        "(docs/theory.md,\n    Theorems 1, 4 and 6), docs/theory-k.md, Lemma 2; "
        "docs/theory.md: Theorem 2 (prior), Theorem 4"
    )
    assert citations(text) == [
        ("theory.md", "Theorem", "1"),
        ("theory.md", "Theorem", "4"),
        ("theory.md", "Theorem", "6"),
        ("theory-k.md", "Lemma", "2"),
        ("theory.md", "Theorem", "2"),
        ("theory.md", "Theorem", "4"),
    ]


@pytest.mark.parametrize("document", ["theory.md", "theory-k.md"])
def test_what_is_cited_is_stated(document: str) -> None:
    """Every theorem, lemma and section cited anywhere is one of the document, and some are cited."""
    text = (ROOT / "docs" / document).read_text()
    stated = {(kind, number) for kind, pattern in STATED.items() for number in pattern.findall(text)}
    cited = {
        (kind, number): path.relative_to(ROOT)
        for path in SOURCES
        if path != Path(__file__)
        for name, kind, number in citations(path.read_text())
        if name == document
    }
    assert {what: where for what, where in cited.items() if what not in stated} == {}
    assert len(cited) >= 4


@pytest.mark.parametrize("document", ["theory.md", "theory-k.md"])
def test_numbers_have_no_gap(document: str) -> None:
    """Theorems and lemmas are numbered from 1 in the order in which they stand, together or each by itself."""
    text = (ROOT / "docs" / document).read_text()
    listed = re.findall(r"^\*\*(Theorem|Lemma) (\d+)", text, re.MULTILINE)
    together = [int(number) for _, number in listed]
    apart = [[int(number) for kind, number in listed if kind == one] for one in ("Theorem", "Lemma")]
    assert any(all(ns == list(range(1, len(ns) + 1)) for ns in lists) for lists in ([together], apart))


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if path.suffix == ".md"], ids=lambda path: path.name
)
def test_links_lead_somewhere(path: Path) -> None:
    """Every file linked to exists, and has what the link's text names in backticks."""
    broken = []
    for text, target in LINK.findall(path.read_text()):
        if "://" in target or target.startswith("mailto:"):
            continue
        there = path.parent / target
        if not there.exists():
            broken.append(target)
        elif there.suffix == ".py":
            broken += [f"{target}: {name}" for name in missing_names(text, there)]
    assert broken == []


@pytest.mark.parametrize("document", ["theory.md", "theory-k.md"])
def test_every_theorem_names_its_code_and_its_test(document: str) -> None:
    """Between one theorem and the next there is a link to the code and one to a test."""
    text = (ROOT / "docs" / document).read_text()
    for part in re.split(r"^\*\*(?=Theorem)", text, flags=re.MULTILINE)[1:]:
        name = part[:12]
        # A test may be all there is to a statement that something fails.
        assert "(../tests/" in part, name
        assert "(../pufferfish/" in part or "(../tests/pufferfish/test_cgssy.py)" in part, name
