"""`hushmq price`: the loss of a given noise on one binary chain."""

from __future__ import annotations

import argparse

from hushmq.broker.contract.problem import Problem
from hushmq.commands.answer import Line, answer
from hushmq.commands.arguments import add_adversary, add_chain, add_json, naming_input, probability
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss

NOTES = """The loss of an endless stream: the largest change of the log odds on the state at any one tick, rounded up.

examples:
  hushmq price --q 0.0893 --r 0.1092 --rho0 0.35 --rho1 0.28
  hushmq price --q 0.2 --r 0.2 --rho0 0.1641 --rho1 0.1641 --adversary prior --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = NOTES
    add_chain(parser)
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
    theta = BinaryTheta.point(args.q, args.r)
    with naming_input(f"--rho0 {args.rho0:g} --rho1 {args.rho1:g} with --q {args.q:g} --r {args.r:g}"):
        reached = loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary=args.adversary)
    answer([Line("epsilon", reached, f"loss at any tick, {args.adversary} adversary")], as_json=args.json)
    return 0
