"""The published results of each section, one file for each in docs/results, of which docs/results.md is made.

A record has what the page shows of one full run, with its seed, versions, day and a digest of the section's sources,
and the numbers of a quick run of the same code. As long as the sources are the same, so are the numbers. Where they
are not, a quick run decides: if it still gives the recorded numbers, the record stands; if not, the section is stale,
and `make results` runs it again. Tests run every section in its quick form (tests/evaluation/conftest.py) and fail
where it is stale. A section without a record is named on the page as not yet measured. A digest alone would ask for a
full run after every change of `pufferfish`; words alone would miss most changes of numbers.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import time
from pathlib import Path
from typing import Any

from hushmq.evaluation.section_list import SECTIONS
from hushmq.evaluation.section_report import Cell

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "docs" / "results"
UNSEEDED = frozenset({"runtime", "attacks", "audit", "peers"})
"""Sections that measure times, or draw the noise of devices and calibrator, which no seed determines."""
DIGITS = 5
NEAR = 1e-3
"""Numbers that differ by less, relatively, are the same: other processors round otherwise."""

Record = dict[str, Any]


def read() -> dict[str, Record]:
    """The records that there are, in the order of the sections."""
    paths = {name: RECORDS / f"{name}.json" for name in SECTIONS}
    return {
        name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.is_file()
    }


def record_of(full: Record, quick: Record) -> Record:
    """The record of a section, from the JSON of its full and of its quick run."""
    shown = [item for item in full["items"] if item["is"] == "Finding" or item["main"]]
    return {
        **{key: full[key] for key in ("name", "title", "about", "seed", "processor_seconds", "versions")},
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "sources": sources(full["name"]),
        "items": [
            {"is": "Picture", "name": item["name"], "title": item["figure"]["title"]}
            if item["is"] == "Picture"
            else item
            for item in shown
        ],
        "quick": _tables(quick),
    }


def write(record: Record) -> Path:
    """Writes a record in its place."""
    path = RECORDS / f"{record['name']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return path


def stale(record: Record | None, quick: Record) -> str:
    """Why a section must be run again, after its quick run; nothing where it need not."""
    name = quick["name"]
    if record is None:
        return f"{name} has never been published"
    if (record["title"], record["about"]) != (quick["title"], quick["about"]):
        return f"{name} says something else of itself now"
    was, now = record["quick"], _tables(quick)
    for table in (*was, *(one for one in now if one not in was)):
        if table not in was or table not in now:
            return f"{name} has the table {table} {'no more' if table in was else 'now'}"
        if was[table]["columns"] != now[table]["columns"]:
            return f"{name}: the table {table} has other columns"
        if name not in UNSEEDED and (why := _other_rows(was[table], now[table])):
            return f"{name}: in the table {table} of its quick run {why}"
    return ""


def sources(name: str) -> str:
    """A digest of the texts of a section's module and of all modules of ours that it imports."""
    found: dict[str, str] = {}
    left = [SECTIONS[name].module]
    while left:
        module = left.pop()
        path = ROOT / "src" / (module.replace(".", "/") + ".py")
        if module not in found and path.is_file():
            found[module] = path.read_text(encoding="utf-8")
            left += _imported(found[module])
    whole = "\0".join(text for _, text in sorted(found.items()))
    return hashlib.sha256(whole.encode()).hexdigest()[:12]


def _imported(text: str) -> set[str]:
    """What a module imports, with names that may be modules themselves."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("hushmq."):
                found |= {module, *(f"{module}.{one.name}" for one in node.names)}
            case ast.Import():
                found |= {one.name for one in node.names}
    return found


def _tables(run: Record) -> dict[str, Any]:
    return {
        item["name"]: {
            "columns": list(item["columns"]),
            "rows": []
            if run["name"] in UNSEEDED
            else [[_rounded(cell) for cell in row] for row in item["rows"]],
        }
        for item in run["items"]
        if item["is"] == "Table"
    }


def _rounded(cell: Cell) -> Cell:
    return float(f"{cell:.{DIGITS}g}") if isinstance(cell, float) and math.isfinite(cell) else cell


def _other_rows(was: Record, now: Record) -> str:
    if len(was["rows"]) != len(now["rows"]):
        return f"there were {len(was['rows'])} rows, there are {len(now['rows'])}"
    for before, after in zip(was["rows"], now["rows"], strict=True):
        for column, old, new in zip(was["columns"], before, after, strict=True):
            if not _alike(old, new):
                return f"{column} was {old} and is {new} ({', '.join(map(str, after[:3]))})"
    return ""


def _alike(old: Cell, new: Cell) -> bool:
    if old is None or new is None:
        return True  # a package that not everybody has
    if isinstance(old, (int, float)) and isinstance(new, (int, float)):
        return math.isclose(old, new, rel_tol=NEAR, abs_tol=1e-6) or (math.isnan(old) and math.isnan(new))
    return old == new
