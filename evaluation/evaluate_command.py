"""`hushmq evaluate`: computes the papers' tables and figures, with our results beside them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid

from hushmq.broker.contract.problem import Problem
from hushmq.commands.arguments import add_json
from hushmq.evaluation.evaluation_progress import progress_listener
from hushmq.evaluation.fetch.fetch_recordings import SERVER, fetch_all, state
from hushmq.evaluation.fetch.published_recordings import PUBLISHED
from hushmq.evaluation.section_list import SECTIONS

NOTES = """Writes DIR/SECTION.md with its tables as CSV and its figures as PNG, and all of it in SECTION.json. Each says
from which seed, with which versions and in what time it was made (a CSV file in its first line, after #). The
same seed gives the same numbers. Simulated noise is seeded here; the agent's and the calibrator's never is.
A section whose recordings or packages are missing is skipped and says so; the exit code is still 0.

sections:
{sections}

The recordings are not part of hushmq: --recordings says where each is published and whether it is in --data, --fetch
gets what is missing there and refuses whatever has another checksum.

examples:
  hushmq evaluate --recordings --data recordings
  hushmq evaluate --fetch --data recordings
  hushmq evaluate --quick                 all sections, small, in a minute
  hushmq evaluate composition             one section in full
  hushmq evaluate --out results --seed 7  all in full, up to half an hour on two cores"""


def configure(parser: argparse.ArgumentParser) -> None:
    listing = "\n".join(f"  {name:<12}  {section.title}" for name, section in SECTIONS.items())
    parser.epilog = NOTES.format(sections=listing)
    parser.add_argument(
        "section", nargs="*", metavar="SECTION", help="which to run, as listed below (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="small versions of everything, within a minute")
    parser.add_argument(
        "--out", type=Path, default=Path("results"), metavar="DIR", help="where results go (default results)"
    )
    parser.add_argument("--seed", type=_seed, default=1, metavar="N", help="0 or more (default 1)")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("../shared/data"),
        metavar="DIR",
        help="where the recordings are (default ../shared/data)",
    )
    parser.add_argument("--recordings", action="store_true", help="list the recordings and run nothing")
    parser.add_argument("--fetch", action="store_true", help="fetch missing recordings into --data, then run")
    parser.add_argument(
        "--from",
        dest="server",
        default=SERVER,
        metavar="URL",
        help=f"a server with the published files (default {SERVER})",
    )
    parser.add_argument("--list", action="store_true", help="name the sections and run none")
    add_json(parser)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def _list_recordings(data: Path, *, as_json: bool) -> int:
    """Says where each recording is published and whether it is in the folder. Returns 1 if one is not."""
    states = {name: state(one, data) for name, one in PUBLISHED.items()}
    if as_json:
        listed = [
            {
                "name": one.name,
                "title": one.title,
                "published": one.publisher,
                "licence": one.licence,
                "file": str(data / one.file),
                "sha256": one.sha256,
                "state": states[one.name],
            }
            for one in PUBLISHED.values()
        ]
        print(json.dumps(listed))
    else:
        for one in PUBLISHED.values():
            print(f"{one.name}: {states[one.name]}\n  {one.title}\n  published at {one.publisher}")
            print(f"  licence {one.licence}\n  {data / one.file}, sha256 of its rows {one.sha256}")
    return 0 if all(found == "there" for found in states.values()) else 1


def run(args: argparse.Namespace) -> int:
    if unknown := [name for name in args.section if name not in SECTIONS]:
        raise Problem(f"unknown section {unknown[0]!r}: choose from {', '.join(SECTIONS)}")
    names = [name for name in SECTIONS if name in args.section or not args.section]
    if args.list:
        titles = {name: SECTIONS[name].title for name in names}
        print(json.dumps(titles) if args.json else "\n".join(f"{n:<12}  {t}" for n, t in titles.items()))
        return 0
    if args.fetch:
        with progress_listener(len(PUBLISHED)) as listener:
            fetched = fetch_all(args.data, args.server, listener)
        print(f"fetched into {args.data}: {', '.join(fetched) or 'nothing, all were there'}", file=sys.stderr)
    if args.recordings:
        return _list_recordings(args.data, as_json=args.json)
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Problem(f"--out: {args.out}: {error.strerror}; give a folder that can be written") from None
    # Imports matplotlib, which is slow: not needed for --help, --list and invalid arguments.
    from hushmq.evaluation import section_runner as runner  # noqa: PLC0415

    plan = runner.EvaluationPlan(names, args.quick, args.seed, args.data, args.out)
    with progress_listener(len(names)) as listener:
        done = list(runner.run(plan, listener))
    answer = {
        "out": str(args.out),
        "quick": args.quick,
        "seed": args.seed,
        "sections": [
            {
                "name": result.name,
                "status": result.status,
                "reason": result.reason or None,
                "seconds": round(result.seconds, 3),
                "files": [path.name for path in files],
            }
            for result, files in done
        ],
    }
    if args.json:
        print(json.dumps(answer))
        return 0
    grid = Grid("section", "status", "seconds", "files", title=f"results in {args.out}")
    for result, files in done:
        status = f"skipped: {result.reason}" if result.reason else "done"
        grid.add_row(result.name, status, f"{result.seconds:.1f}", str(len(files)))
    Console(width=None if sys.stdout.isatty() else 120).print(grid)
    return 0
