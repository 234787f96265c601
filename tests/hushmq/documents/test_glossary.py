"""The glossary names what exists: types of the code, topics and fields of the contract."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from pydantic import BaseModel

from hushmq.broker.reference.topic_table import CHANNELS

ROOT = Path(__file__).parents[3]
PACKAGES = ("agent", "broker", "calibrator", "hushmq", "pufferfish")
MODELS = ("messages", "policy_message", "noise_message", "theta_message")


def rows() -> list[dict[str, str]]:
    """The rows of all tables that have these columns, by column."""
    found = []
    for table in re.findall(r"((?:^\|.*\n)+)", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE):
        head, _, *body = (
            [cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()
        )
        found += [dict(zip(head, cells, strict=True)) for cells in body if "type" in head]
    return found


@cache
def definitions() -> dict[str, list[Path]]:
    """Where each name is defined at the top level of a module."""
    found = defaultdict(list)
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.parse(file.read_text()).body:
                match node:
                    case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                        found[name].append(file.relative_to(ROOT))
                    case ast.Assign(targets=[ast.Name(id=name)]):
                        found[name].append(file.relative_to(ROOT))
    return found


def named(column: str) -> list[tuple[str, str]]:
    """Each word with each name in code type of a column."""
    return [(row["word"], name) for row in rows() for name in re.findall(r"`([^`]+)`", row[column])]


def test_there_is_a_glossary() -> None:
    """The tables are found, and no word stands twice."""
    words = [row["word"] for row in rows()]
    assert len(words) > 50
    assert len(words) == len(set(words))


@pytest.mark.parametrize(("word", "name"), named("type"))
def test_a_type_exists_and_is_meant_alone(word: str, name: str) -> None:
    """A name is defined once, or its file or folder tells which one is meant: `ledger/Account`."""
    *place, bare = name.split("/")
    files = [file for file in definitions()[bare] if not place or place[0] in {*file.parts, file.stem}]
    assert len(files) == 1, f"{word}: {name} is defined in {[str(file) for file in definitions()[bare]]}"


@pytest.mark.parametrize(("word", "name"), named("on the wire"))
def test_a_topic_or_field_exists(word: str, name: str) -> None:
    """A name with a dot is a field of a message, another one a topic."""
    if "." not in name:
        assert name in {re.sub(r"\{(\w+)\}", r"<\1>", channel.below) for channel in CHANNELS}, word
        return
    model, field = name.split(".")
    models = [vars(import_module(f"hushmq.broker.contract.{module}")) for module in MODELS]
    found = next(one[model] for one in models if model in one)
    assert issubclass(found, BaseModel)
    assert field in found.model_fields, word
