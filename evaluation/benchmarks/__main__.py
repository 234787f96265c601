"""`python -m hushmq.evaluation.benchmarks [NAME …]`: run benchmarks and print their rows, as a table or as JSON."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version

from rich.console import Console
from rich.table import Table

from hushmq.evaluation.benchmarks.benchmark_row import Row

BENCHMARKS = {
    "agent": "agent_speed",
    "binary": "calibration_speed",
    "brokers": "broker_speed",
    "calibrator": "calibrator_speed",
    "draw": "draw_speed",
    "estimate": "estimate_speed",
    "load": "device_load",
    "month": "simulated_month",
    "mqm": "markov_quilt_speed",
    "own": "device_settings_speed",
    "peers": "peer_speed",
    "quilt": "tilted_quilt_speed",
    "sanitize": "sanitize_speed",
    "start": "first_release",
    "timeline": "timeline_speed",
}
"""By name, the module that measures it."""


def names() -> list[str]:
    """Every benchmark that there is."""
    return list(BENCHMARKS)


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
    parser = argparse.ArgumentParser(prog="python -m hushmq.evaluation.benchmarks", description=__doc__)
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
            results[name] = import_module(f"{__package__}.{BENCHMARKS[name]}").run()
    if args.json:
        print(json.dumps({name: [asdict(row) for row in rows] for name, rows in results.items()}))
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
