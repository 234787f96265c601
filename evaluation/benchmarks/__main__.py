"""`python -m hushmq.evaluation.benchmarks [NAME …]`: run benchmarks, print their rows as they come, keep them as JSON.

A benchmark is a module with `run()`, which yields `Row`s. One that fails is reported and the others still run; the exit
code is then 1. Every run is kept in results/bench, and each row is shown beside its value in the last run that has it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from rich.console import Console, JustifyMethod
from rich.table import Table

from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.benchmark_run import (
    Run,
    earlier_runs,
    last_value,
    machine_facts,
    read_run,
    run_path,
)
from hushmq.evaluation.benchmarks.published_rows import number, publish

BENCHMARKS = {
    "agent": "agent_speed",
    "binary": "calibration_speed",
    "brokers": "broker_speed",
    "calibrator": "calibrator_speed",
    "console": "console_speed",
    "draw": "draw_speed",
    "estimate": "estimate_speed",
    "fleet": "fleet_speed",
    "load": "device_load",
    "month": "simulated_month",
    "mqm": "markov_quilt_speed",
    "outage": "outage_speed",
    "own": "device_settings_speed",
    "peers": "peer_speed",
    "pricing": "pricing_speed",
    "quilt": "tilted_quilt_speed",
    "regimes": "regime_speed",
    "sanitize": "sanitize_speed",
    "start": "first_release",
    "startup": "start_up_speed",
    "steady": "ingest_speed",
    "timeline": "timeline_speed",
    "update": "theta_update_speed",
    "windows": "window_speed",
}
"""By name, the module that measures it."""

HELPERS = {
    "benchmark_cohort",
    "benchmark_row",
    "benchmark_run",
    "benchmarks_page",
    "console_process",
    "growth",
    "load_processes",
    "measured_blocks",
    "published_rows",
}
"""Modules of this package that measure nothing."""

FOLDER = Path("results/bench")
EXAMPLES = """\
examples:
  make bench                                  all of them, for half an hour or more; see --list
  make bench ARGS="draw sanitize"             two of them, beside the last run that has them
  make bench ARGS="draw --against FILE"       beside one run, from results/bench or from elsewhere
  make bench ARGS="draw --json" > rows.json   the rows as one JSON object, progress on stderr
  make bench ARGS="draw --publish" docs       let docs/benchmarks.md and whoever quotes it have these rows
"""
COLUMNS: tuple[tuple[str, int, JustifyMethod], ...] = (
    ("benchmark", 52, "left"),
    ("measured", 20, "right"),
    ("last run", 20, "right"),
    ("against", 40, "left"),
    ("ratio", 9, "right"),
    ("aim", 14, "left"),
)


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    if args.list:
        for name in BENCHMARKS:
            print(f"{name:<11} {_subject(name)}")
        return 0
    if unknown := sorted(set(args.name) - set(BENCHMARKS)):
        print(f"benchmarks: no {', '.join(unknown)}: choose from {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    try:
        earlier = [read_run(args.against)] if args.against else earlier_runs(args.out)
    except (OSError, ValueError) as problem:
        print(f"benchmarks: --against: {problem}", file=sys.stderr)
        return 2
    now = time.time()
    run, path = Run(machine_facts(now=now)), run_path(args.out, now=now)
    shown = Console(width=170, stderr=args.json, highlight=False, markup=False)
    _measure(args.name or list(BENCHMARKS), run, path, earlier, shown)
    if args.publish:
        print(
            f"benchmarks: published {', '.join(publish(run)) or 'nothing'}: make docs writes them",
            file=sys.stderr,
        )
    if args.json:
        print(json.dumps({name: [asdict(row) for row in rows] for name, rows in run.results.items()}))
    for name, error in run.failed.items():
        print(f"benchmarks: {name} failed: {error}", file=sys.stderr)
    print(f"benchmarks: kept as {path}", file=sys.stderr)
    return 1 if run.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hushmq.evaluation.benchmarks",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help=f"which to run (default: all): {', '.join(BENCHMARKS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON object; the table goes to stderr")
    parser.add_argument(
        "--publish", action="store_true", help="replace the rows of docs/benchmarks.json by those of this run"
    )
    parser.add_argument("--list", action="store_true", help="say what each benchmark measures, and run none")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help="compare with this run (default: the newest with the row)",
    )
    parser.add_argument(
        "--out", type=Path, default=FOLDER, metavar="FOLDER", help=f"where runs are kept (default: {FOLDER})"
    )
    return parser


def _measure(names: Iterable[str], run: Run, path: Path, earlier: Sequence[Run], shown: Console) -> None:
    """Run each benchmark, print each row when it is there, and keep the run after each row."""
    machine = run.machine
    shown.print(
        f"hushmq {machine['versions']['hushmq']}, commit {machine['commit']}, Python {machine['python']}, "
        f"{machine['cores']} cores ({machine['processor']}), load {machine['load']}"
    )
    shown.print(_line(*(heading for heading, _, _ in COLUMNS)), style="bold")
    for name in names:
        began = time.perf_counter()
        print(f"benchmarks: measuring {name} …", file=sys.stderr, flush=True)
        rows = run.results[name] = []
        try:
            for row in import_module(f"{__package__}.{BENCHMARKS[name]}").run():
                rows.append(row)
                shown.print(_cells(name, row, last_value(earlier, name, row.name)))
                shown.file.flush()
                run.write(path)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the others still run
            traceback.print_exc()
            run.failed[name] = f"{type(problem).__name__}: {problem}"
            run.write(path)
        took = time.perf_counter() - began
        print(f"benchmarks: {name} took {took:.0f} s", file=sys.stderr, flush=True)


def _subject(name: str) -> str:
    """The first sentence of the benchmark's module."""
    text = import_module(f"{__package__}.{BENCHMARKS[name]}").__doc__ or ""
    return text.strip().splitlines()[0]


def _cells(benchmark: str, row: Row, last: float | None) -> Table:
    value = "–" if row.value is None else f"{number(row.value)} {row.unit}"
    before = "" if last is None else number(last)
    if last and row.value is not None:
        before += f" ({row.value / last - 1:+.0%})"
    ratio = "" if row.ratio is None else f"{number(row.ratio, digits=3)}×"
    return _line(f"{benchmark}: {row.name}", value, before, row.against, ratio, row.aim)


def _line(*cells: str) -> Table:
    """One row of the table: the widths are fixed, so that each can be printed before the next is known."""
    line = Table.grid(padding=(0, 2, 0, 0))
    for _, width, justify in COLUMNS:
        line.add_column(width=width, justify=justify)
    line.add_row(*cells)
    return line


if __name__ == "__main__":
    sys.exit(main())
