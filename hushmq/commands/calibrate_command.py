"""`hushmq calibrate`: the noise for a binary chain, or for intervals of them, and a given loss."""

from __future__ import annotations

import argparse

from hushmq.broker.contract.problem import Problem
from hushmq.commands.answer import Line, answer
from hushmq.commands.arguments import (
    add_adversary,
    add_chains,
    add_epsilon,
    add_json,
    chains_of,
    naming_input,
)
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import largest_tilts, loss, optimal_noise

NOTES = """The noise flips a 0 with probability rho0 and a 1 with probability rho1. Among all noise with at most
this loss it maximises the signal 1 - rho0 - rho1. With --weights stationary it minimises the share of
flipped samples with no rho above 1/2 (CGSSY Corollary 1); for a small loss that noise answers the more
frequent state almost always, and is hardly informative.

tau0 and tau1 are the tilts of the noise towards 0 and 1. epsilon is the loss attained, at most the one
given. scale is the Laplace scale of a count over any windows instead, against the prior adversary.

With intervals the loss holds for every chain in them. undecided is the loss of the same noise to whoever
knows only the intervals, and learns from the stream which chain it is as well.

examples:
  hushmq calibrate --q 0.0893 --r 0.1092 --epsilon 1
  hushmq calibrate --q 0.0893 --r 0.1092 --epsilon 1 --adversary prior --json
  hushmq calibrate --q 0.1:0.15 --r 0.2:0.25 --epsilon 4 --adversary undecided"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = NOTES
    add_chains(parser)
    add_epsilon(parser)
    add_adversary(parser)
    parser.add_argument(
        "--weights",
        choices=("equal", "stationary"),
        default="equal",
        help="the weights of a flipped 0 and a flipped 1 in the objective (default equal)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    theta, chains = chains_of(args)
    if args.weights == "stationary" and not theta.single:
        raise Problem(
            "--weights: stationary needs one chain, not intervals: give --q and --r one number each"
        )
    weights = (theta.r_low, theta.q_low) if args.weights == "stationary" else None
    with naming_input(f"--epsilon {args.epsilon:g} with {chains}"):
        noise = optimal_noise(theta, args.epsilon, args.adversary, weights)
        scale = count_scale(theta, args.epsilon)
        reached = loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary=args.adversary)
        undecided = loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary="undecided")
    lines = [
        Line("rho0", noise.rho0, "a 0 is sent as 1 with this probability"),
        Line("rho1", noise.rho1, "a 1 is sent as 0 with this probability"),
        Line("tau0", noise.tau0, "nats towards 0 from one sample"),
        Line("tau1", noise.tau1, "nats towards 1 from one sample"),
        Line("epsilon", reached, f"loss reached, {args.adversary} adversary"),
        Line("scale", scale, "Laplace scale of one count, prior adversary"),
    ]
    if not theta.single:
        lines.append(Line("undecided", undecided, "loss to whoever knows the intervals alone"))
    answer(lines, as_json=args.json)
    return 0


def count_scale(theta: BinaryTheta, epsilon: float) -> float:
    """The Laplace scale of a count over any set of disjoint windows, 1/τ with τ the largest tilt within ε.

    docs/theory.md, Theorem 3. A count has equal tilts towards both states. For q+r < 1 the directions are independent,
    so τ = min(log M0, log M1); otherwise each depends on both tilts, and bisection finds the largest equal pair.
    """
    low, high = sorted(largest_tilts(theta, epsilon, "prior"))
    if theta.q_high + theta.r_high >= 1.0:
        while high - low > 1e-12 * high:
            middle = 0.5 * (low + high)
            if loss(theta, tau0=middle, tau1=middle, adversary="prior") <= epsilon:
                low = middle
            else:
                high = middle
    return 1.0 / low
