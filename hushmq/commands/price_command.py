"""`hushmq price`: the loss of a given noise on a binary chain, or on intervals of them."""

from __future__ import annotations

import argparse

from hushmq.broker.contract.problem import Problem
from hushmq.commands.answer import Line, answer
from hushmq.commands.arguments import (
    add_adversary,
    add_chains,
    add_json,
    chains_of,
    naming_input,
    probability,
)
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.stream_loss import loss

NOTES = """The loss of an endless stream: the largest change of the log odds on the state at any one tick, rounded up.
With intervals it is that of the worst chain in them; undecided is the loss to whoever knows only the
intervals, and learns from the stream which chain it is as well.

examples:
  hushmq price --q 0.0893 --r 0.1092 --rho0 0.35 --rho1 0.28
  hushmq price --q 0.2 --r 0.2 --rho0 0.1641 --rho1 0.1641 --adversary prior --json
  hushmq price --q 0.1:0.15 --r 0.2:0.25 --rho0 0.35 --rho1 0.28"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = NOTES
    add_chains(parser)
    for name, flip in (("--rho0", "a 0 is sent as 1"), ("--rho1", "a 1 is sent as 0")):
        parser.add_argument(
            name,
            type=probability,
            required=True,
            metavar="RHO",
            help=f"the probability that {flip}, inside (0, 1); the two sum to less than 1",
        )
    add_adversary(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if not args.rho0 + args.rho1 < 1.0:
        raise Problem(
            f"--rho0 and --rho1: they sum to {args.rho0 + args.rho1:g}; the sum must be below 1, or the output "
            "says nothing about the state"
        )
    noise = BinaryNoise(args.rho0, args.rho1)
    theta, chains = chains_of(args)
    with naming_input(f"--rho0 {args.rho0:g} --rho1 {args.rho1:g} with {chains}"):
        reached = loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary=args.adversary)
        undecided = loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary="undecided")
    lines = [Line("epsilon", reached, f"loss at any tick, {args.adversary} adversary")]
    if not theta.single:
        lines.append(Line("undecided", undecided, "loss to whoever knows the intervals alone"))
    answer(lines, as_json=args.json)
    return 0
