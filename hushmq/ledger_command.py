"""`hushmq ledger`: what a timeline of releases lets anyone infer, and what a calibrator's ledger holds."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.commands import ledger_commands as ledger_cli
from hushmq.commands.answer import Line, answer
from hushmq.commands.arguments import add_adversary, add_json, blaming
from hushmq.fields import Fields, read_object
from hushmq.pufferfish.binary.binary_timeline import Entry, price
from hushmq.pufferfish.binary.stream_loss import Box

FORMAT = """TIMELINE.json, ticks counted from 1; an entry tilts each of its ticks, and tilts at one tick add up:
  {"q": 0.0893, "r": 0.1092, "ticks": 120,
   "entries": [{"first": 1, "last": 60, "tau": 0.05},
               {"first": 31, "last": 90, "tau0": 0.04, "tau1": 0.03}]}"""

NOTES = f"""The largest loss at any tick, and the tick where it is reached.

{FORMAT}

examples:
  hushmq ledger price TIMELINE.json
  hushmq ledger price TIMELINE.json --adversary prior --json"""


PLOTS = """The loss of both audiences after every entry of a calibrator's ledger, under the Θ believed now.

examples:
  hushmq ledger plot --config calibrator.toml
  hushmq ledger plot --config calibrator.toml --stream motion --output ledger.svg"""


class History(NamedTuple):
    """A timeline as the file tells it."""

    theta: Box
    ticks: int
    entries: list[Entry]


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="price|show|plot|verify|export")
    ledger_cli.configure(actions)
    plotting = actions.add_parser("plot", help="both losses over time, beside their budgets", epilog=PLOTS)
    ledger_cli.add_where(plotting)
    plotting.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write a picture, FILE.png or FILE.svg, instead of drawing in the terminal",
    )
    add_json(plotting)
    pricing = actions.add_parser("price", help="the loss of a timeline and where it is reached", epilog=NOTES)
    pricing.add_argument(
        "timeline", type=Path, metavar="TIMELINE.json", help="the timeline, as described below"
    )
    add_adversary(pricing)
    add_json(pricing)


def run(args: argparse.Namespace) -> int:
    if args.action == "plot":
        return _plot(args)
    if args.action != "price":
        return ledger_cli.run(args)
    history = read_history(args.timeline)
    with blaming(str(args.timeline)):
        found = price(history.entries, history.theta, args.adversary, span=(1, history.ticks))
    answer(
        [
            Line("epsilon", found.epsilon, f"largest loss at any tick, {args.adversary} adversary"),
            Line("tick", found.tick, "where it is reached"),
        ],
        as_json=args.json,
    )
    return 0


def _plot(args: argparse.Namespace) -> int:
    from hushmq.explain.figure_output import show  # noqa: PLC0415  # that package reads timelines by way of this module
    from hushmq.explain.spending_figure import spending_figure  # noqa: PLC0415  # as above

    show(spending_figure(ledger_cli.books(args)), output=args.output, as_json=args.json)
    return 0


def read_history(path: Path) -> History:
    """Read and check a timeline file."""
    fields = read_object(path)
    fields.only(("q", "r", "ticks", "entries"))
    q = fields.number("q", "a number above 0 and below 1, the chance per tick of 0→1", low=0, high=1)
    r = fields.number("r", "a number above 0 and below 1, the chance per tick of 1→0", low=0, high=1)
    ticks = fields.whole("ticks", "a whole number, 1 or more", low=1)
    entries = [_entry(one, ticks) for one in fields.objects("entries", "a list of entries")]
    return History(Box.point(q, r), ticks, entries)


def _entry(fields: Fields, ticks: int) -> Entry:
    fields.only(("first", "last", "tau", "tau0", "tau1"))
    if "tau" in fields.values and ("tau0" in fields.values or "tau1" in fields.values):
        raise Problem(f"{fields.where}: give tau, or tau0 and tau1, not both")
    names = ("tau0", "tau1") if "tau0" in fields.values or "tau1" in fields.values else ("tau", "tau")
    first = fields.whole("first", f"a tick from 1 to {ticks}", low=1, high=ticks)
    last = fields.whole("last", f"a tick from first, {first}, to {ticks}", low=first, high=ticks)
    tau0, tau1 = (_tilt(fields, name) for name in names)
    return Entry(first, last, tau0, tau1)


def _tilt(fields: Fields, name: str) -> float:
    takes = "a tilt in nats, a finite number, 0 or more"
    tilt = fields.number(name, takes)
    if tilt < 0.0:
        fields.refuse(name, f"{tilt:g}; it must be {takes}")
    return tilt
