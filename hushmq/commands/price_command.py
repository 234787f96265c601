"""`hushmq price`: the loss of a given noise on a binary chain, or on intervals of them."""

from __future__ import annotations

import argparse

from hushmq.broker.contract.problem import Problem
from hushmq.commands.answer import Line, answer
from hushmq.commands.arguments import add_adversary, add_json, naming_input, probability
from hushmq.commands.states_model import add_states, priced
from hushmq.commands.stream_model import RegimeModel, add_stream, add_stride, stream_of
from hushmq.pufferfish.binary.binary_noise import BinaryNoise

NOTES = """The loss of an endless stream: the largest change of the log odds on the state at any one tick, rounded up.
With intervals it is that of the worst chain in them; undecided is the loss to whoever knows only the
intervals, and learns from the stream which chain it is as well. With --stride only every M-th tick is
published. REGIMES.json holds a chain with hidden regimes, as described by hushmq calibrate --help; --within
prices all chains of two regimes around it: every probability of leaving a regime or a state may be so many
percent larger or smaller, each by itself. STATES.json holds a chain of several states, as described there too.

examples:
  hushmq price --q 0.0893 --r 0.1092 --rho0 0.35 --rho1 0.28
  hushmq price --q 0.2 --r 0.2 --rho0 0.1641 --rho1 0.1641 --adversary prior --json
  hushmq price --q 0.1:0.15 --r 0.2:0.25 --rho0 0.35 --rho1 0.28
  hushmq price --regimes REGIMES.json --rho0 0.26 --rho1 0.14 --stride 5 --adversary prior
  hushmq price --regimes REGIMES.json --rho0 0.26 --rho1 0.14 --within 10 --adversary prior
  hushmq price --chain STATES.json --keep 0.6 --stride 12"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = NOTES
    add_stream(parser)
    add_states(parser)
    for name, flip in (("--rho0", "a 0 is sent as 1"), ("--rho1", "a 1 is sent as 0")):
        parser.add_argument(
            name,
            type=probability,
            metavar="RHO",
            help=f"the probability that {flip}, inside (0, 1); the two sum to less than 1",
        )
    parser.add_argument(
        "--keep",
        type=probability,
        metavar="P",
        help="with --chain: the probability that a state is sent as it is; the others share the rest",
    )
    parser.add_argument(
        "--within",
        type=_percent,
        metavar="PERCENT",
        help="with --regimes: for all chains whose probabilities are within so many percent of the file's",
    )
    add_adversary(parser)
    add_stride(parser, auto=False)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.chain is not None:
        answer(priced(args), as_json=args.json)
        return 0
    if args.keep is not None:
        raise Problem("--keep: it is for --chain; give --rho0 and --rho1")
    for name in ("rho0", "rho1"):
        if getattr(args, name) is None:
            raise Problem(f"--{name}: missing; give --rho0 and --rho1, or --chain and --keep")
    if not args.rho0 + args.rho1 < 1.0:
        raise Problem(
            f"--rho0 and --rho1: they sum to {args.rho0 + args.rho1:g}; the sum must be below 1, or the output "
            "says nothing about the state"
        )
    noise = BinaryNoise(args.rho0, args.rho1)
    stream = stream_of(args)
    if args.within is not None and not isinstance(stream, RegimeModel):
        raise Problem("--within: it is for --regimes; give --q and --r as intervals")
    with naming_input(f"--rho0 {args.rho0:g} --rho1 {args.rho1:g} with {stream.in_words}"):
        reached = stream.loss(noise, args.adversary, args.stride)
        if args.within is not None and isinstance(stream, RegimeModel):
            reached = stream.loss_within(args.within, noise, args.stride)
        undecided = stream.loss(noise, "undecided", args.stride) if stream.undecided else None
    lines = [
        Line("epsilon", reached, f"loss at any tick, {args.adversary} adversary"),
        Line("stride", args.stride, "of so many ticks one is published"),
    ]
    if undecided is not None:
        lines.append(Line("undecided", undecided, "loss to whoever knows the intervals alone"))
    answer(lines, as_json=args.json)
    return 0


def _percent(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0.0 <= found < 100.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to below 100")
    return found
