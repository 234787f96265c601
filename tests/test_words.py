"""Words that were given up do not come back: docs/glossary.md says which word to use instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from hushmq.documents.links import documents

ROOT = Path(__file__).parents[1]
PACKAGES = ("agent", "broker", "calibrator", "console", "evaluation", "hushmq", "pufferfish")


@dataclass(frozen=True)
class Abolished:
    """A word, the one to use, and the identifiers that may keep it: names on the wire, of users and of libraries."""

    word: str
    instead: str
    kept: frozenset[str] = field(default_factory=frozenset)

    def __str__(self) -> str:
        return self.word


def abolished(words: str, instead: str, *kept: str) -> list[Abolished]:
    return [Abolished(word, instead, frozenset(kept)) for word in words.split()]


IDENTIFIERS = [
    *abolished("box boxes", "theta, or region", "box"),
    *abolished("belief beliefs believed believes", "learned theta"),
    *abolished("look looks looked", "theta update"),
    *abolished("holder holders", "DeviceExposure"),
    *abolished("weigh weighed", "weight"),
    *abolished("told", "reported, shown, known"),
    *abolished("aside", "quarantined", "set_aside", "outbox_set_aside"),
    *abolished("lasting", "persistent, misfit"),
    *abolished("book books", "ledger, account, balance"),
]
"""Words that no function, class, argument, attribute or variable has in its name."""

PHRASES = {
    r"\bown settings?\b": "device-specific setting",
    r"\bsettings? of (its|their) own\b": "device-specific setting",
    r"\b(is|was|are|now) believed\b": "learned Θ",
    r"\b(a|the|each|every|last|first|next) looks?\b": "theta update",
    r"\bkinds? of (stream|chain|model)s?\b": "chain model",
    r"\bset aside\b": "quarantined, renamed",
    r"\bno noise is owed\b|\bnone to cover or to fear\b": "say what the function returns",
}
"""Private idiom that no docstring has."""


@cache
def sources() -> dict[Path, ast.Module]:
    """Every module of ours, parsed once."""
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    return {file.relative_to(ROOT): ast.parse(file.read_text(encoding="utf-8")) for file in files}


@cache
def names() -> dict[Path, set[str]]:
    """The identifiers of every module, and its name."""
    return {file: {file.stem, *identifiers(tree)} for file, tree in sources().items()}


@cache
def docstrings() -> list[tuple[Path, str]]:
    return [(file, text) for file, tree in sources().items() for text in texts(tree)]


def identifiers(tree: ast.Module) -> Iterator[str]:
    """Every name that a module gives or uses."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Attribute(attr=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name) | ast.keyword(arg=str(name)):
                yield name


@cache
def parts(name: str) -> set[str]:
    """The words of an identifier, in snake_case or CamelCase."""
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


def texts(tree: ast.Module) -> Iterator[str]:
    """The docstrings of a module, those of attributes included."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield " ".join(node.value.value.split())


def test_no_identifier_has_an_abolished_word() -> None:
    """Neither a name that is given, nor one that is used, nor a file's."""
    found = {
        f"{file}: {name}, say {word.instead}"
        for file, here in names().items()
        for name in here
        for word in IDENTIFIERS
        if name not in word.kept and word.word in parts(name)
    }
    assert found == set()


def test_no_docstring_has_private_idiom() -> None:
    """A stranger with a textbook understands a docstring at the first reading."""
    found = {
        f"{file}: {text[max(0, match.start() - 40) : match.end() + 30]}, say {instead}"
        for phrase, instead in PHRASES.items()
        for file, text in docstrings()
        if (match := re.search(phrase, text, re.IGNORECASE))
    }
    assert found == set()


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_document_has_private_idiom(phrase: str) -> None:
    """The same for the documents, but the glossary, which names what was given up."""
    found = {
        str(document.relative_to(ROOT))
        for document in documents(ROOT)
        if document.name != "glossary.md"
        and re.search(phrase, " ".join(document.read_text(encoding="utf-8").split()), re.IGNORECASE)
    }
    assert found == set(), f"say {PHRASES[phrase]}"


def test_the_glossary_names_them() -> None:
    """Who wonders which word to use finds it there."""
    table = (ROOT / "docs/glossary.md").read_text(encoding="utf-8").partition("## Words we no longer use")[2]
    given_up = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("|"))
    assert {one.word for one in IDENTIFIERS} <= set(re.findall(r"\w+", given_up))


def test_words_are_found_in_names() -> None:
    """Snake case, camel case and private names are taken apart; longer words that contain one are not meant."""
    assert parts("_last_look") >= {"last", "look"}
    assert parts("DeviceBook") == {"device", "book"}
    assert "box" not in parts("outbox") | parts("Inbox")
