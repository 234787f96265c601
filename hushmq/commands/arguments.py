"""Options that several commands share: names, types and error texts."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager

from hushmq.broker.contract.problem import Problem


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
        choices=("prior", "informed"),
        default="informed",
        help="prior: knows the chain alone; informed: also any set of true states (default informed)",
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
