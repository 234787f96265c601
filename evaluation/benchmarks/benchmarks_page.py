"""docs/benchmarks.md: every published row with its conditions."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from hushmq.evaluation.benchmarks.published_rows import read_published, table

PATH = Path("docs/benchmarks.md")

_INTRODUCTION = """\
# Benchmarks

What `make bench` measured, with the conditions of each run; generated from [benchmarks.json](benchmarks.json) by
`make docs`. `make bench ARGS="NAME --publish"` measures a benchmark again and replaces its rows. Other documents quote
these rows and type none: a table between two `measured` comments is generated too.

Ratios are measured in one run, side by side. A row of a growth has the exponent of the cost as a power of the size,
fitted over at least three sizes. A run is called idle where less than a quarter of its cores were busy when it began.
"""


def document() -> str:
    """The page."""
    parts = [_INTRODUCTION]
    for name, one in read_published().items():
        subject = (import_module(f"{__package__}.{_module(name)}").__doc__ or "").strip().splitlines()[0]
        parts.append(f"## {name}\n{subject}\n\n{one.conditions}.\n\n{table(one.rows)}")
    return "\n".join(parts)


def _module(name: str) -> str:
    from hushmq.evaluation.benchmarks.__main__ import BENCHMARKS  # noqa: PLC0415  # which writes this page

    return BENCHMARKS[name]
