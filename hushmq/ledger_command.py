"""`hushmq ledger`: the loss of a timeline of releases, and the contents of a calibrator's ledger."""

from __future__ import annotations

import argparse
from pathlib import Path

from hushmq.calibrator.commands import ledger_commands as ledger_cli
from hushmq.commands.answer import Line, answer
from hushmq.commands.arguments import add_adversary, add_json, naming_input
from hushmq.commands.stream_model import check_regime_adversary
from hushmq.commands.timeline_file import FORMAT, History, read_history
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import price
from hushmq.pufferfish.timeline.entry import Price

NOTES = f"""The largest loss at any tick, and a tick that attains it.

{FORMAT}

examples:
  hushmq ledger price TIMELINE.json
  hushmq ledger price TIMELINE.json --adversary prior --json"""


PLOTS = """The loss to both audiences after every entry of a calibrator's ledger, under the learned Θ.

examples:
  hushmq ledger plot --config calibrator.toml
  hushmq ledger plot --config calibrator.toml --stream motion --output ledger.svg"""


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="price|show|plot|verify|disclose|export|archive|reconcile"
    )
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
    with naming_input(str(args.timeline)):
        found = _price(history, args.adversary)
    answer(
        [
            Line("epsilon", found.epsilon, f"largest loss at any tick, {args.adversary} adversary"),
            Line("tick", found.tick, "where it is reached"),
        ],
        as_json=args.json,
    )
    return 0


def _price(history: History, adversary: Adversary) -> Price:
    span = (1, history.ticks)
    if isinstance(history.chain, BinaryTheta):
        return price(history.entries, history.chain, adversary, span=span)
    from hushmq.pufferfish.regimes import regime_timeline  # noqa: PLC0415  # needs numpy

    check_regime_adversary(adversary)
    return regime_timeline.price(history.entries, history.chain, span)


def _plot(args: argparse.Namespace) -> int:
    from hushmq.explain.figure_output import show  # noqa: PLC0415  # for this action alone
    from hushmq.explain.spending_figure import spending_figure  # noqa: PLC0415  # as above

    show(spending_figure(ledger_cli.ledgers(args)), output=args.output, as_json=args.json)
    return 0
