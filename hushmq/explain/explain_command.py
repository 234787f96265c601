"""The command line of the figures: drawn in the terminal, written to a PNG or SVG file, or printed as JSON."""

from __future__ import annotations

import argparse
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.commands.arguments import (
    add_adversary,
    add_chain,
    add_epsilon,
    add_json,
    naming_input,
    positive,
)
from hushmq.commands.progress_bar import bar
from hushmq.commands.states_model import StatesModel, add_states
from hushmq.commands.stream_model import add_stream, stream_of
from hushmq.commands.timeline_file import FORMAT as TIMELINE_FORMAT
from hushmq.commands.timeline_file import read_history
from hushmq.explain.figure import Figure
from hushmq.explain.figure_output import SUFFIXES, show
from hushmq.explain.loss_figure import loss_figure
from hushmq.explain.timeline_figure import timeline_figure

EXAMPLES = """examples:
  hushmq explain loss --q 0.0893 --r 0.1092 --epsilon 1
  hushmq explain timeline TIMELINE.json --budget 2 --output timeline.svg
  hushmq explain stride --q 0.0893 --r 0.1092 --epsilon 2
  hushmq explain scale CHAIN.json --output scale.png"""

LOSS_NOTES = """The loss over the flipping probability, the same for both states, to both adversaries and from one
sample alone; with --epsilon also the pairs of probabilities with at most this loss.

examples:
  hushmq explain loss --q 0.0893 --r 0.1092
  hushmq explain loss --q 0.0893 --r 0.1092 --epsilon 1 --output loss.svg"""

TIMELINE_NOTES = f"""The loss at every tick of a timeline, and its tilts below.

{TIMELINE_FORMAT}

examples:
  hushmq explain timeline TIMELINE.json
  hushmq explain timeline TIMELINE.json --adversary prior --budget 2 --output timeline.png"""

STRIDE_NOTES = """The standard error of a share in a window of one device against the stride, each with the
best noise for the loss: what the noise adds, and what is lost by publishing some ticks only. REGIMES.json
is described by hushmq calibrate --help; a chain with regimes is shown for the prior adversary.

examples:
  hushmq explain stride --q 0.0893 --r 0.1092 --epsilon 2
  hushmq explain stride --regimes REGIMES.json --epsilon 4 --ticks 2000 --output stride.svg
  hushmq explain stride --chain STATES.json --epsilon 2"""

SCALE_NOTES = """The Laplace scale of each method over a range of ε, with the lower bound (see hushmq scale --help for
the methods and for CHAIN.json).

examples:
  hushmq explain scale CHAIN.json
  hushmq explain scale CHAIN.json --epsilon 0.5 5 --output scale.svg"""


def picture(text: str) -> Path:
    """Parses the name of a picture file, for argparse."""
    path = Path(text)
    if path.suffix not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"{text!r} does not end in {' or '.join(SUFFIXES)}")
    return path


def _ticks(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1 << 40:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of ticks, 1 or more")
    return int(text)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    figures = parser.add_subparsers(dest="figure", required=True, metavar="loss|timeline|stride|scale")

    loss = figures.add_parser("loss", help="loss against noise on a binary chain", epilog=LOSS_NOTES)
    add_chain(loss)
    loss.add_argument(
        "--epsilon", type=positive, metavar="E", help="also show the noise with at most this loss"
    )

    timeline = figures.add_parser("timeline", help="loss at every tick of a timeline", epilog=TIMELINE_NOTES)
    timeline.add_argument(
        "timeline", type=Path, metavar="TIMELINE.json", help="the timeline, as described below"
    )
    add_adversary(timeline)
    timeline.add_argument("--budget", type=positive, metavar="E", help="also show this loss as a line")

    stride = figures.add_parser("stride", help="error against the ticks published", epilog=STRIDE_NOTES)
    add_stream(stride)
    add_states(stride)
    add_epsilon(stride)
    stride.add_argument(
        "--ticks", type=_ticks, default=7200, metavar="N", help="the length of the window (default 7200)"
    )

    scale = figures.add_parser("scale", help="noise scale against ε, all methods", epilog=SCALE_NOTES)
    scale.add_argument(
        "chain", type=Path, metavar="CHAIN.json", help="the chains, as hushmq scale takes them"
    )
    scale.add_argument(
        "--epsilon",
        type=positive,
        nargs=2,
        default=(0.1, 10.0),
        metavar=("LOW", "HIGH"),
        help="the range of ε, two positive numbers (default 0.1 10)",
    )
    scale.add_argument(
        "--points", type=int, default=13, metavar="N", help="values of ε to try, 2 to 200 (default 13)"
    )
    for figure in (loss, timeline, stride, scale):
        figure.add_argument(
            "--output",
            type=picture,
            metavar="FILE",
            help="write a picture, FILE.png or FILE.svg, instead of drawing in the terminal",
        )
        add_json(figure)


def run(args: argparse.Namespace) -> int:
    show(_figure(args), output=args.output, as_json=args.json)
    return 0


def _figure(args: argparse.Namespace) -> Figure:
    if args.figure == "loss":
        with naming_input(f"--q {args.q:g} --r {args.r:g}"):
            return loss_figure(args.q, args.r, args.epsilon)
    if args.figure == "timeline":
        history = read_history(args.timeline)
        with naming_input(str(args.timeline)):
            return timeline_figure(history, args.adversary, args.budget)
    # Imported here because only these figures need numpy.
    if args.figure == "stride":
        from hushmq.explain.stride_figure import stride_figure  # noqa: PLC0415

        stream = stream_of(args) if args.chain is None else StatesModel.of(args)
        with naming_input(f"--epsilon {args.epsilon:g} with {stream.in_words}"):
            return stride_figure(
                stream, args.epsilon, args.ticks, ("prior",) if args.regimes else ("informed", "prior")
            )
    from hushmq.commands.chain_file import read_chains  # noqa: PLC0415
    from hushmq.explain.scale_figure import scale_figure  # noqa: PLC0415

    low, high = args.epsilon
    if not low < high:
        raise Problem(f"--epsilon: {low:g} to {high:g} is no range; LOW must be below HIGH")
    if not 2 <= args.points <= 200:
        raise Problem(f"--points: {args.points} is out of range: 2 to 200")
    given = read_chains(args.chain)
    return scale_figure(given, low=low, high=high, points=args.points, progress=bar("explain"))
