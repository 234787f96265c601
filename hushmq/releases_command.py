"""`hushmq releases`: what a site has released, as a table for other programs or as a picture."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from hushmq.api.release_history import archived_words, releases
from hushmq.broker.commands.answer_words import answer_cells
from hushmq.broker.contract.messages import Release
from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.commands.archive_command import add_archive
from hushmq.explain.figure_output import show
from hushmq.explain.release_figure import release_figure

EXAMPLES = """From the database of a calibrator, also while it runs. The loss of a release is about any one
instant and all releases by then: it does not add up over windows.

examples:
  hushmq releases export home > releases.csv
  hushmq releases export home --stream motion --window hour --format jsonl
  hushmq releases export home --format parquet --out releases.parquet    # where pandas and pyarrow are
  hushmq releases export home --queries                                  # the answers to the policy's queries
  hushmq releases export home --archive archive                          # with what was archived
  hushmq releases plot home --window minute
  hushmq releases plot home --output releases.svg"""
COLUMNS = (
    *("stream", "window", "scope", "start", "end", "first", "last", "period_ms", "devices", "ticks", "state"),
    *("share", "standard_error", "low", "high", "smoothed", "smoothed_low", "smoothed_high"),
    *("loss", "budget", "entry"),
)


QUERY_COLUMNS = (
    *("stream", "window", "scope", "start", "end", "first", "last", "query", "kind", "item"),
    *("value", "standard_error", "low", "high", "entry"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="export|plot")
    export = actions.add_parser("export", help="a row for each state of each release", epilog=EXAMPLES)
    export.add_argument(
        "--format", choices=("csv", "jsonl", "parquet"), default="csv", help="csv (default), jsonl or parquet"
    )
    export.add_argument(
        "--out", type=Path, metavar="FILE", help="the file to write (default: standard output)"
    )
    export.add_argument(
        "--queries", action="store_true", help="a row for each number of each answer to a query instead"
    )
    plot = actions.add_parser("plot", help="shares with their intervals over time", epilog=EXAMPLES)
    plot.add_argument("--state", metavar="NAME", help="the state to draw (default: the last one)")
    plot.add_argument("--unsmoothed", action="store_true", help="each share as it was released, by itself")
    plot.add_argument("--output", type=Path, metavar="FILE", help="write a picture, FILE.png or FILE.svg")
    plot.add_argument("--json", action="store_true", help="print the numbers of the picture")
    for each in (export, plot):
        each.add_argument(
            "site",
            metavar="SITE",
            help="the site's folder, a calibrator's settings file, or the URL of its database",
        )
        each.add_argument("--stream", metavar="NAME", help="this stream only")
        each.add_argument("--window", metavar="NAME", help="this window only")
        each.add_argument("--scope", metavar="NAME", help="cohort, or one device, only")
        add_archive(each)


def run(args: argparse.Namespace) -> int:
    found = releases(
        args.site, stream=args.stream, window=args.window, scope=args.scope, archive=args.archive
    )
    if args.archive is None and (archived := archived_words(args.site)):
        print(f"without the archive: {archived}: give --archive DIR", file=sys.stderr)
    if args.action == "plot":
        show(
            release_figure(found, state=args.state, unsmoothed=args.unsmoothed),
            output=args.output,
            as_json=args.json,
        )
        return 0
    if args.queries:
        return _export(args, list(query_rows(found)), QUERY_COLUMNS)
    return _export(args, list(rows(found)), COLUMNS)


def rows(found: Sequence[Release]) -> Iterator[dict[str, Any]]:
    """Yield a row for each state of each release."""
    for one in found:
        for index, state in enumerate(one.states):
            smoothed = (None,) * 3
            if one.smoothed is not None and one.smoothed_intervals is not None:
                smoothed = (one.smoothed[index], *one.smoothed_intervals[index])  # type: ignore[assignment]
            values = (
                *(one.stream, one.window, one.scope, one.start, one.end, one.first, one.last, one.period_ms),
                *(one.devices, one.ticks, state, one.frequencies[index], one.standard_errors[index]),
                *(*one.intervals[index], *smoothed, one.loss, one.budget, one.entry),
            )
            yield dict(zip(COLUMNS, values, strict=True))


def query_rows(found: Sequence[Release]) -> Iterator[dict[str, Any]]:
    """Yield a row for each number of each answer: of states, pairs of states, or one of all."""
    for one in found:
        where = (one.stream, one.window, one.scope, one.start, one.end, one.first, one.last)
        for name, answer in one.answers.items():
            for cells in answer_cells(answer, one.states):
                yield dict(zip(QUERY_COLUMNS, (*where, name, answer.kind, *cells, one.entry), strict=True))


def _export(args: argparse.Namespace, table: list[dict[str, Any]], columns: Sequence[str]) -> int:
    if args.format == "parquet":
        return _parquet(args.out, table, columns)
    try:
        with nullcontext(sys.stdout) if args.out is None else args.out.open("w", newline="") as file:
            if args.format == "jsonl":
                file.writelines(json.dumps(row, allow_nan=False) + "\n" for row in table)
            else:
                writer = csv.DictWriter(file, columns)
                writer.writeheader()
                writer.writerows(table)
            file.flush()
    except OSError as error:
        if args.out is None:
            raise
        raise Problem(f"--out: {args.out}: {error.strerror}") from None
    return 0


def _parquet(out: Path | None, table: list[dict[str, Any]], columns: Sequence[str]) -> int:
    if out is None:
        raise Problem("--out: parquet is no text: name the file to write")
    try:
        frames: Any = import_module("pandas")  # an optional library of the user's
        frames.DataFrame(table, columns=list(columns)).to_parquet(out)
    except ImportError:
        raise Problem("--format: parquet needs pandas and pyarrow: pip install pandas pyarrow") from None
    except OSError as error:
        raise Problem(f"--out: {out}: {error.strerror}") from None
    return 0
