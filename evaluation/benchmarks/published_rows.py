"""The rows that documents quote: docs/benchmarks.json, each benchmark with the machine and the time of its run.

`python -m hushmq.evaluation.benchmarks NAME --publish` replaces the rows of the benchmarks it has run, and no others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.benchmark_run import ROOT, Run

PUBLISHED = ROOT / "docs" / "benchmarks.json"

_FACTS = ("time", "commit", "cores", "processor", "load", "python", "versions")
_AIM = re.compile(r"([≤≥<]) ([\d.,]+) ?(\S*)")


@dataclass(frozen=True, slots=True)
class Published:
    """The rows of one benchmark, and the facts of the machine that made them."""

    machine: Mapping[str, Any]
    rows: tuple[Row, ...]

    @property
    def conditions(self) -> str:
        """Where, when and beside how much other work the rows were measured."""
        facts = self.machine
        busy = "idle" if facts["load"] < facts["cores"] / 4 else "busy"
        return (
            f"{facts['time'][:10]}, commit {facts['commit']}, Python {facts['python']}, {facts['cores']} cores "
            f"({facts['processor']}), {busy}: load {facts['load']:g}"
        )


def read_published(path: Path = PUBLISHED) -> dict[str, Published]:
    """By benchmark, what is published; nothing where the file is not there."""
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: Published(one["machine"], tuple(Row(**row) for row in one["rows"]))
        for name, one in found.items()
    }


def publish(run: Run, path: Path = PUBLISHED) -> list[str]:
    """Replace the rows of every benchmark that the run completed; their names."""
    published = read_published(path)
    done = [name for name in run.results if name not in run.failed]
    facts = {name: run.machine[name] for name in _FACTS}
    published |= {name: Published(facts, tuple(run.results[name])) for name in done}
    tree = {
        name: {"machine": one.machine, "rows": [asdict(row) for row in one.rows]}
        for name, one in sorted(published.items())
    }
    path.write_text(json.dumps(tree, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return done


def table(rows: Iterable[Row]) -> str:
    """The rows in Markdown."""
    lines = ["| | measured | beside | ratio | aim |", "|---|---|---|---|---|"]
    for row in rows:
        value = "–" if row.value is None else f"{number(row.value)} {row.unit}".strip()
        ratio = "" if row.ratio is None else number(row.ratio, digits=3)
        aim = f"{row.aim}: missed" if missed(row) else row.aim
        lines.append("| " + " | ".join(map(_cell, (row.name, value, row.against, ratio, aim))) + " |")
    return "\n".join(lines) + "\n"


def missed(row: Row) -> bool:
    """Whether the value misses the aim, where the aim is a bound in the row's own unit."""
    match = _AIM.fullmatch(row.aim)
    if match is None or row.value is None or match[3] not in {row.unit, ""}:
        return False
    bound = float(match[2].replace(",", ""))
    match match[1]:
        case "≤":
            return row.value > bound
        case "<":
            return row.value >= bound
        case _:
            return row.value < bound


def number(value: float, *, digits: int = 4) -> str:
    """So many significant digits, and all those before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
