"""What `calibrate` and `price` are asked about: intervals of chains, or a chain with regimes, and which ticks."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from hushmq.broker.contract.problem import Problem
from hushmq.commands.arguments import add_chains, chains_of
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary import stream_loss
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.bisection import bisection
from hushmq.pufferfish.thinning import theta_strides
from hushmq.pufferfish.thinning.stride_search import StridedNoise, least_error

Stride = int | Literal["auto"]


class StreamModel(Protocol):
    """A stream whose loss is known."""

    @property
    def in_words(self) -> str:
        """The options that gave it."""

    @property
    def undecided(self) -> bool:
        """Whether there is a chain to be undecided about."""

    def noise(self, epsilon: float, adversary: Adversary, stride: Stride) -> tuple[int, BinaryNoise]:
        """The stride, and the noise with the most signal within ε."""

    def loss(self, noise: BinaryNoise, adversary: Adversary, stride: int) -> float:
        """The largest loss at any tick."""

    def strides(self, epsilon: float, adversary: Adversary) -> list[StridedNoise]:
        """The noise and the error of several strides, in order."""

    def count_scale(self, epsilon: float) -> float:
        """The Laplace scale of a count over any set of disjoint windows, against the prior adversary."""


@dataclass(frozen=True)
class IntervalModel:
    """Every chain with q and r in intervals, of which every m-th tick is published.

    The price of a single chain is exact (docs/theory-regimes.md, Theorem R3), that of several is Theorem R5's.
    """

    theta: BinaryTheta
    in_words: str
    weights: tuple[float, float] | None = None

    @property
    def undecided(self) -> bool:
        return not self.theta.single

    def noise(self, epsilon: float, adversary: Adversary, stride: Stride) -> tuple[int, BinaryNoise]:
        if stride == 1:
            return 1, stream_loss.optimal_noise(self.theta, epsilon, adversary, self.weights)
        from hushmq.pufferfish.thinning import strided_noise  # noqa: PLC0415  # needs numpy

        if not self.theta.single:
            if stride == "auto":
                stride = least_error(self.strides(epsilon, adversary)).stride
            return stride, self.theta.optimal_noise(epsilon, adversary, stride=stride)
        q, r = self.theta.q_low, self.theta.r_low
        if stride == "auto":
            best = strided_noise.best_stride(q, r, epsilon, adversary)
        else:
            best = strided_noise.strided_noise(q, r, epsilon, stride=stride, adversary=adversary)
        return best.stride, best.noise

    def loss(self, noise: BinaryNoise, adversary: Adversary, stride: int) -> float:
        if stride == 1:
            return stream_loss.loss(self.theta, tau0=noise.tau0, tau1=noise.tau1, adversary=adversary)
        from hushmq.pufferfish.thinning.strided_chain import strided_loss  # noqa: PLC0415  # needs numpy

        if not self.theta.single:
            return self.theta.constant_loss(*noise.tilts, adversary, stride=stride)
        q, r = self.theta.q_low, self.theta.r_low
        return strided_loss(q, r, *noise.tilts, stride=stride, adversary=adversary)

    def strides(self, epsilon: float, adversary: Adversary) -> list[StridedNoise]:
        from hushmq.pufferfish.thinning import strided_noise  # noqa: PLC0415  # needs numpy

        if not self.theta.single:
            return theta_strides.strides(self.theta, epsilon, adversary)
        return strided_noise.strides(self.theta.q_low, self.theta.r_low, epsilon, adversary)

    def count_scale(self, epsilon: float) -> float:
        """1/τ with τ the largest tilt within ε (docs/theory.md, Theorem 3).

        A count has equal tilts towards both states. For q+r < 1 the directions are independent, so τ is the smaller of
        the largest tilts; otherwise each depends on both, and bisection finds the largest equal pair.
        """
        low, high = sorted(stream_loss.largest_tilts(self.theta, epsilon, "prior"))
        if self.theta.q_high + self.theta.r_high >= 1.0:
            low, _ = bisection(
                lambda tau: stream_loss.loss(self.theta, tau0=tau, tau1=tau, adversary="prior") <= epsilon,
                low,
                high,
                relative=1e-12,
            )
        return 1.0 / low


class RegimeModel:
    """A chain with hidden regimes, against the prior adversary."""

    undecided = False

    def __init__(self, path: Path) -> None:
        # Needs numpy, which a device does not have.
        from hushmq.commands.regime_file import read_regimes  # noqa: PLC0415
        from hushmq.pufferfish.regimes import regime_noise, regime_tilts  # noqa: PLC0415

        self.in_words = f"--regimes {path}"
        self._chain, self._engine, self._tilts = read_regimes(path), regime_noise, regime_tilts

    def noise(self, epsilon: float, adversary: Adversary, stride: Stride) -> tuple[int, BinaryNoise]:
        check_regime_adversary(adversary)
        if stride == "auto":
            best = self._engine.best_stride(self._chain, epsilon)
            return best.stride, best.noise
        return stride, self._engine.optimal_noise(self._chain, epsilon, stride)

    def loss(self, noise: BinaryNoise, adversary: Adversary, stride: int) -> float:
        check_regime_adversary(adversary)
        return self._tilts.loss(self._chain, *noise.tilts, stride)

    def loss_within(self, percent: float, noise: BinaryNoise, stride: int) -> float:
        """The same for all chains whose probabilities of leaving a regime or a state are within so many percent."""
        from hushmq.pufferfish.regimes.regime_corners import RegimeCorners  # noqa: PLC0415  # few ask for it

        return max(RegimeCorners.around(self._chain, percent / 100).directed_losses(*noise.tilts, stride))

    def strides(self, epsilon: float, adversary: Adversary) -> list[StridedNoise]:
        check_regime_adversary(adversary)
        return self._engine.strides(self._chain, epsilon)

    def count_scale(self, epsilon: float) -> float:
        low, high = sorted(self._tilts.largest_tilts(self._chain, epsilon))
        low, _ = bisection(
            lambda tau: self._tilts.loss(self._chain, tau, tau) <= epsilon, low / 2, high, relative=1e-6
        )
        return 1.0 / low


def check_regime_adversary(adversary: Adversary) -> None:
    """Problem unless a loss for hidden regimes is proved against this adversary."""
    if adversary == "informed":
        raise Problem(
            "--adversary: informed has no proven loss for hidden regimes, which go on behind every known state: "
            "write --adversary prior"
        )


def add_stream(parser: argparse.ArgumentParser) -> None:
    """`--q` and `--r`, or `--regimes`."""
    add_chains(parser, required=False)
    parser.add_argument(
        "--regimes",
        type=Path,
        metavar="REGIMES.json",
        help="instead of --q and --r: a chain with hidden regimes, in a file described below",
    )


def add_stride(parser: argparse.ArgumentParser, *, auto: bool) -> None:
    """`--stride`."""
    parser.add_argument(
        "--stride",
        type=_stride_or_auto if auto else _stride,
        default=1,
        metavar="M|auto" if auto else "M",
        help="publish every M-th tick only"
        + (", or auto: as many as make the share of a long window most exact" if auto else "")
        + " (default 1)",
    )


def stream_of(args: argparse.Namespace, weights: str = "equal") -> StreamModel:
    """What the options of `add_stream` ask about."""
    if args.regimes is not None:
        if args.q is not None or args.r is not None:
            raise Problem("--regimes: give either it, or --q and --r")
        if weights != "equal":
            raise Problem("--weights: stationary needs one chain, not regimes: give --q and --r")
        return RegimeModel(args.regimes)
    for name in ("q", "r"):
        if getattr(args, name) is None:
            raise Problem(f"--{name}: missing; give --q and --r, or --regimes")
    theta, words = chains_of(args)
    if weights == "equal":
        return IntervalModel(theta, words)
    if not theta.single:
        raise Problem(
            "--weights: stationary needs one chain, not intervals: give --q and --r one number each"
        )
    if args.stride != 1:
        raise Problem("--weights: stationary is for --stride 1")
    return IntervalModel(theta, words, (theta.r_low, theta.q_low))


def _stride(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {1 << 16}")
    return int(text)


def _stride_or_auto(text: str) -> Stride:
    return "auto" if text == "auto" else _stride(text)
