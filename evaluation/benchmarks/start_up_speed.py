"""Starting: what `hushmq calibrator --help` and importing the calibrator take, and what a server installs.

Times are processor seconds of a process of its own, the least of several. Sizes are those of the installed files of the
distributions that `hushmq[calibrator,broker]` needs.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hushmq.evaluation.benchmarks.benchmark_row import Row

LIBRARIES = "numpy, sqlalchemy, structlog, pydantic, paho.mqtt.client, prometheus_client, cryptography"
ROUNDS = 5


def run() -> Iterator[Row]:
    bare = seconds("-c", "pass")
    shown = seconds("-m", "hushmq", "calibrator", "--help")
    yield Row(
        "hushmq calibrator --help", shown, "s", f"python -c pass ({bare:.3f} s)", shown / bare, "≤ 0.3 s"
    )
    libraries = seconds("-c", f"import {LIBRARIES}")
    daemon = seconds("-c", "import hushmq.calibrator.daemon")
    yield Row(
        "import the calibrator's daemon",
        daemon,
        "s",
        f"importing its libraries alone ({libraries:.2f} s)",
        daemon / libraries,
        "≤ 0.7 s",
    )
    sizes = {name: megabytes(name) for name in installed("hushmq", {"calibrator", "broker"})}
    largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:3]
    yield Row(
        "a server's install, embedded broker included",
        sum(sizes.values()),
        "MB",
        "largest: " + ", ".join(f"{name} {sizes[name]:.0f} MB" for name in largest),
        None,
        "≤ 200 MB",
    )


def seconds(*arguments: str) -> float:
    """Processor time of Python with these arguments; its compiled modules are written first."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    took = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(took)


def installed(name: str, extras: set[str]) -> set[str]:
    """The distribution and all that it needs with these extras, of those that are installed here."""
    found: set[str] = set()
    waiting = [(canonicalize_name(name), frozenset(extras))]
    while waiting:
        one, wanted = waiting.pop()
        if one in found and not wanted:
            continue
        try:
            requirements = distribution(one).requires or ()
        except PackageNotFoundError:
            continue
        found.add(one)
        for requirement in map(Requirement, requirements):
            needed = requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in ("", *wanted)
            )
            key = canonicalize_name(requirement.name)
            if needed and (key not in found or requirement.extras):
                waiting.append((key, frozenset(requirement.extras)))
    return found


def megabytes(name: str) -> float:
    """What the files of an installed distribution take on disk."""
    paths = (file.locate() for file in distribution(name).files or ())
    return sum(os.stat(path).st_size for path in map(str, paths) if os.path.isfile(path)) / 1e6
