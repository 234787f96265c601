"""`hushmq calibrate`: the noise for a binary chain, or for intervals of them, and a given loss."""

from __future__ import annotations

import argparse

from hushmq.commands.answer import Line, answer
from hushmq.commands.arguments import add_adversary, add_epsilon, add_json, naming_input
from hushmq.commands.states_model import FORMAT, add_states, calibrated
from hushmq.commands.stream_model import add_stream, add_stride, stream_of

NOTES = """The noise flips a 0 with probability rho0 and a 1 with probability rho1. Among all noise with at most
this loss it maximises the signal 1 - rho0 - rho1. With --weights stationary it minimises the share of
flipped samples with no rho above 1/2 (CGSSY Corollary 1); for a small loss that noise answers the more
frequent state almost always, and is hardly informative.

tau0 and tau1 are the tilts of the noise towards 0 and 1. epsilon is the loss attained, at most the one
given. scale is the Laplace scale of a count over any windows instead, against the prior adversary.

With intervals the loss holds for every chain in them. undecided is the loss of the same noise to whoever
knows only the intervals, and learns from the stream which chain it is as well.

With --stride only every M-th tick is published, and each may have less noise; the loss is that at any tick,
published or not. Slow chains tell more that way.

REGIMES.json holds a chain with hidden regimes; a step first draws the new regime, then the bit by that
regime's q and r:
  {"regimes": {"transition": [[0.997, 0.003], [0.004, 0.996]],
               "chains": [{"q": 0.047, "r": 0.383}, {"q": 0.454, "r": 0.026}]}}

"""
EXAMPLES = """

examples:
  hushmq calibrate --q 0.0893 --r 0.1092 --epsilon 1
  hushmq calibrate --q 0.0893 --r 0.1092 --epsilon 1 --adversary prior --json
  hushmq calibrate --q 0.1:0.15 --r 0.2:0.25 --epsilon 4 --adversary undecided
  hushmq calibrate --q 0.004 --r 0.012 --epsilon 2 --stride auto
  hushmq calibrate --regimes REGIMES.json --epsilon 4 --adversary prior --stride auto
  hushmq calibrate --chain STATES.json --epsilon 2 --stride auto"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = NOTES + FORMAT + EXAMPLES
    add_stream(parser)
    add_states(parser)
    add_epsilon(parser)
    add_adversary(parser)
    parser.add_argument(
        "--weights",
        choices=("equal", "stationary"),
        default="equal",
        help="the weights of a flipped 0 and a flipped 1 in the objective (default equal)",
    )
    add_stride(parser, auto=True)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.chain is not None:
        answer(calibrated(args), as_json=args.json)
        return 0
    stream = stream_of(args, args.weights)
    with naming_input(f"--epsilon {args.epsilon:g} with {stream.in_words}"):
        stride, noise = stream.noise(args.epsilon, args.adversary, args.stride)
        scale = stream.count_scale(args.epsilon)
        reached = stream.loss(noise, args.adversary, stride)
        undecided = stream.loss(noise, "undecided", stride) if stream.undecided else None
    lines = [
        Line("rho0", noise.rho0, "a 0 is sent as 1 with this probability"),
        Line("rho1", noise.rho1, "a 1 is sent as 0 with this probability"),
        Line("tau0", noise.tau0, "nats towards 0 from one sample"),
        Line("tau1", noise.tau1, "nats towards 1 from one sample"),
        Line("epsilon", reached, f"loss reached, {args.adversary} adversary"),
        Line("scale", scale, "Laplace scale of one count, prior adversary"),
        Line("stride", stride, "of so many ticks one is published"),
    ]
    if undecided is not None:
        lines.append(Line("undecided", undecided, "loss to whoever knows the intervals alone"))
    answer(lines, as_json=args.json)
    return 0
