"""`python -m evaluation.benchmarks [NAME …]`: run benchmarks and print their rows, as a table or as JSON."""

from __future__ import annotations

import argparse
import json
import pkgutil
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version

from rich.console import Console
from rich.table import Table

import evaluation.benchmarks
from evaluation.benchmarks.rows import Row

NOT_BENCHMARKS = {"__main__", "rows"}


def names() -> list[str]:
    """Every module of this package that measures something."""
    found = {module.name for module in pkgutil.iter_modules(evaluation.benchmarks.__path__)}
    return sorted(found - NOT_BENCHMARKS)


def table(results: dict[str, list[Row]]) -> Table:
    shown = Table(
        title=f"hushmq {version('hushmq')}, Python {platform.python_version()}, both sides in one run"
    )
    for heading in ("benchmark", "measured", "against", "ratio", "aim"):
        shown.add_column(heading, justify="right" if heading == "ratio" else "left")
    for name, rows in results.items():
        shown.add_section()
        for row in rows:
            ratio = "" if row.ratio is None else f"{row.ratio:,.3g}×"
            value = "–" if row.value is None else f"{row.value:,.4g} {row.unit}"
            shown.add_row(f"{name}: {row.name}", value, row.against, ratio, row.aim)
    return shown


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m evaluation.benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"which to run (default: all): {', '.join(names())}")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    args = parser.parse_args(argv)
    if unknown := sorted(set(args.name) - set(names())):
        print(f"benchmarks: no {', '.join(unknown)}: choose from {', '.join(names())}", file=sys.stderr)
        return 2
    results = {}
    progress = Console(stderr=True)
    for name in args.name or names():
        with progress.status(f"measuring {name}"):
            results[name] = import_module(f"evaluation.benchmarks.{name}").run()
    if args.json:
        print(json.dumps({name: [asdict(row) for row in rows] for name, rows in results.items()}))
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
