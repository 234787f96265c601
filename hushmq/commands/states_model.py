"""What `calibrate` and `price` are asked about a stream of more than two states: chains in a file, and which ticks."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from hushmq.broker.contract.problem import Problem
from hushmq.commands.answer import Line
from hushmq.commands.arguments import naming_input
from hushmq.commands.json_file import JsonObject, Numbers, read_json
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.thinning.stride_search import least_error

if TYPE_CHECKING:
    from hushmq.pufferfish.thinning.state_strides import StridedResponse

FORMAT = """STATES.json holds a chain of several states, or bounds on all of its probabilities; a state is sent as
it is with the chance keep, and as each of the others with the chance other:
  {"transition": [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.1, 0.7]]}
  {"low": [[0.7, 0.05, 0.05], …], "high": [[0.9, 0.2, 0.2], …]}"""


class StatesFile(JsonObject):
    """The whole file."""

    transition: list[Numbers] | None = Field(
        default=None, description="a list of rows, each a list of probabilities"
    )
    low: list[Numbers] | None = Field(default=None, description="a list of rows: the least probabilities")
    high: list[Numbers] | None = Field(default=None, description="a list of rows: the largest probabilities")


def read_states(path: Path) -> CategoricalTheta:
    """The chains in a file; Problem, which names the field, where they are wrong."""
    found = read_json(path, StatesFile)
    try:
        if found.transition is not None and found.low is None and found.high is None:
            for number, row in enumerate(found.transition):
                if abs(math.fsum(row) - 1.0) > 1e-9:
                    raise Problem(f"{path}: transition: row {number} sums to {math.fsum(row):g}, not to 1")
            return CategoricalTheta.point(found.transition)
        if found.transition is None and found.low is not None and found.high is not None:
            return CategoricalTheta.between(found.low, found.high)
    except ValueError as error:
        raise Problem(f"{path}: {error}") from None
    raise Problem(f"{path}: give either transition, or low and high")


def add_states(parser: argparse.ArgumentParser) -> None:
    """`--chain`."""
    parser.add_argument(
        "--chain",
        type=Path,
        metavar="STATES.json",
        help="instead of --q and --r: a chain of several states or bounds on it, in a file described below",
    )


def check_alone(args: argparse.Namespace, *others: str) -> None:
    """Problem where an option is given that is not for `--chain`."""
    for name in ("q", "r", "regimes", *others):
        if getattr(args, name) is not None:
            raise Problem(f"--{name}: it is not for --chain")


@dataclass(frozen=True, slots=True)
class StatesModel:
    """The chains of `--chain`, and the errors of several strides."""

    theta: CategoricalTheta
    in_words: str

    @classmethod
    def of(cls, args: argparse.Namespace) -> StatesModel:
        """What the option asks about; Problem where others are given beside it."""
        check_alone(args)
        return cls(read_states(args.chain), f"--chain {args.chain}")

    def strides(self, epsilon: float, adversary: Adversary) -> list[StridedResponse]:
        """Those for which something is proved, in order; ValueError if there are none."""
        from hushmq.pufferfish.thinning.state_strides import strides  # noqa: PLC0415  # needs numpy

        found = [one for one in strides(self.theta, epsilon, adversary) if one.noise is not None]
        if not found:
            raise ValueError("no stride lets anything be published: chains of Θ may forget too slowly")
        return found


def calibrated(args: argparse.Namespace) -> list[Line]:
    """The noise for `--chain`."""
    if args.weights != "equal":
        raise Problem("--weights: stationary is for two states")
    stream = StatesModel.of(args)
    theta, stride = stream.theta, args.stride
    with naming_input(f"--epsilon {args.epsilon:g} with {stream.in_words}"):
        if stride == "auto":
            stride = least_error(stream.strides(args.epsilon, args.adversary)).stride
        noise = theta.optimal_noise(args.epsilon, args.adversary, stride=stride)
    keep, other = noise.rows[0][:2]
    return [
        Line("keep", keep, "a state is sent as it is with this probability"),
        Line("other", other, "and as each of the others with this one"),
        Line("tau", noise.tilts[0], "nats from one sample"),
        *_priced(args, theta, noise, stride),
    ]


def priced(args: argparse.Namespace) -> list[Line]:
    """The loss of `--keep` for `--chain`."""
    check_alone(args, "rho0", "rho1", "within")
    if args.keep is None:
        raise Problem("--keep: missing; with --chain give the probability that a state is sent as it is")
    theta = read_states(args.chain)
    k = theta.states
    if not args.keep > 1.0 / k:
        raise Problem(f"--keep: {args.keep:g} says nothing of {k} states; it must be above {1 / k:g}")
    other = (1.0 - args.keep) / (k - 1)
    rows = tuple(tuple(args.keep if u == x else other for u in range(k)) for x in range(k))
    with naming_input(f"--keep {args.keep:g} with --chain {args.chain}"):
        return _priced(args, theta, CategoricalNoise(rows), args.stride)


def _priced(
    args: argparse.Namespace, theta: CategoricalTheta, noise: CategoricalNoise, stride: int
) -> list[Line]:
    reached = theta.constant_loss(*noise.tilts, args.adversary, stride=stride)
    if not math.isfinite(reached):
        raise ValueError(f"nothing is proved for a stride of {stride}: chains of Θ may forget too slowly")
    lines = [
        Line("epsilon", reached, f"loss at any tick, {args.adversary} adversary"),
        Line("stride", stride, "of so many ticks one is published"),
    ]
    if theta.odds_spread:
        undecided = theta.constant_loss(*noise.tilts, "undecided", stride=stride)
        lines.append(Line("undecided", undecided, "loss to whoever knows the intervals alone"))
    return lines
