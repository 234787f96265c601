"""Options that several commands share: names, types and error texts."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager

from hushmq.broker.contract.problem import Problem
from hushmq.pufferfish.adversary import ADVERSARIES
from hushmq.pufferfish.binary.binary_theta import BinaryTheta


def probability(text: str) -> float:
    """Parses a number inside (0, 1), for argparse."""
    value = _number(text)
    if value is None or not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and below 1")
    return value


def positive(text: str) -> float:
    """Parses a positive, finite number, for argparse."""
    value = _number(text)
    if value is None or not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive, finite number")
    return value


def add_chain(parser: argparse.ArgumentParser) -> None:
    """`--q` and `--r`, a binary chain."""
    parser.add_argument(
        "--q", type=probability, required=True, metavar="Q", help="chance per tick of 0→1, inside (0, 1)"
    )
    parser.add_argument(
        "--r", type=probability, required=True, metavar="R", help="chance per tick of 1→0, inside (0, 1)"
    )


def interval(text: str) -> tuple[float, float]:
    """Parses a number inside (0, 1), or LOW:HIGH, two of them in order, for argparse."""
    low, colon, high = text.partition(":")
    ends = probability(low), probability(high if colon else low)
    if ends[0] > ends[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not an interval: the low end comes first")
    return ends


def add_chains(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """`--q` and `--r`, a binary chain or intervals of them."""
    for name, step in (("--q", "0→1"), ("--r", "1→0")):
        parser.add_argument(
            name,
            type=interval,
            required=required,
            metavar=name[2:].upper(),
            help=f"chance per tick of {step}, inside (0, 1), or an interval of it, LOW:HIGH",
        )


def chains_of(args: argparse.Namespace) -> tuple[BinaryTheta, str]:
    """The Θ of `add_chains`, and the options in words."""
    return BinaryTheta(*args.q, *args.r), f"--q {_ends(args.q)} --r {_ends(args.r)}"


def _ends(ends: tuple[float, float]) -> str:
    return f"{ends[0]:g}" if ends[0] == ends[1] else f"{ends[0]:g}:{ends[1]:g}"


def add_epsilon(parser: argparse.ArgumentParser) -> None:
    """`--epsilon`."""
    parser.add_argument(
        "--epsilon",
        type=positive,
        required=True,
        metavar="E",
        help="the loss allowed, a positive number of nats",
    )


def add_adversary(parser: argparse.ArgumentParser) -> None:
    """`--adversary`."""
    parser.add_argument(
        "--adversary",
        choices=ADVERSARIES,
        default="informed",
        help="prior: knows the chain alone; informed: also any set of true states; undecided: knows the "
        "intervals alone (default informed)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")


@contextmanager
def naming_input(what: str) -> Iterator[None]:
    """Turns a ValueError or ArithmeticError of the mathematics into a Problem that names the input."""
    try:
        yield
    except (ValueError, ArithmeticError) as error:
        raise Problem(f"{what}: {error}") from None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
