"""Noise from loss and loss from noise, for streams of two states and of more.

All losses are in nats, upper bounds that hold for every chain in Θ, and for every instant of an endless stream. Two
states are exact up to rounding (docs/theory.md); more have certified bounds (docs/theory-k.md)
for which the adversary has to be named.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import overload

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary import binary_timeline
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.timeline.entry import Entry, Price

__all__ = [
    "BinaryNoise",
    "BinaryTheta",
    "CategoricalNoise",
    "CategoricalTheta",
    "Entry",
    "Price",
    "loss",
    "optimal_noise",
    "price",
]


@overload
def optimal_noise(
    theta: BinaryTheta, *, epsilon: float, adversary: Adversary = "informed"
) -> BinaryNoise: ...


@overload
def optimal_noise(theta: CategoricalTheta, *, epsilon: float, adversary: Adversary) -> CategoricalNoise: ...


def optimal_noise(
    theta: BinaryTheta | CategoricalTheta, *, epsilon: float, adversary: Adversary = "informed"
) -> BinaryNoise | CategoricalNoise:
    """The least noise with which an endless stream has a loss of at most ε.

    For two states the flip probabilities (ρ0, ρ1) of least sum, for more randomized response of the largest tilt that
    is proved to keep ε. Raises ValueError where no noise keeps it.
    """
    return theta.optimal_noise(epsilon, adversary)


@overload
def loss(theta: BinaryTheta, noise: BinaryNoise, *, adversary: Adversary = "informed") -> float: ...


@overload
def loss(theta: CategoricalTheta, noise: CategoricalNoise, *, adversary: Adversary) -> float: ...


def loss(
    theta: BinaryTheta | CategoricalTheta,
    noise: BinaryNoise | CategoricalNoise,
    *,
    adversary: Adversary = "informed",
) -> float:
    """The loss of an endless stream that carries this noise at every tick; infinite where no bound is proved.

    Raises ValueError where noise and Θ are for different numbers of states.
    """
    if theta.states != noise.states:
        raise ValueError(
            f"theta is for {theta.states} states, noise for {noise.states}: they must be equally many"
        )
    tau0, tau1 = noise.tilts
    return theta.constant_loss(tau0, tau1, adversary)


@overload
def price(
    theta: BinaryTheta,
    entries: Iterable[Entry],
    *,
    adversary: Adversary = "informed",
    span: tuple[int, int] | None = None,
) -> Price: ...


@overload
def price(theta: CategoricalTheta, entries: Iterable[Entry], *, adversary: Adversary) -> Price: ...


def price(
    theta: BinaryTheta | CategoricalTheta,
    entries: Iterable[Entry],
    *,
    adversary: Adversary = "informed",
    span: tuple[int, int] | None = None,
) -> Price:
    """The largest loss that a history of releases has at any tick, and a tick where it is reached.

    Each entry tilts its ticks; tilts at one tick add up. `span` is the first and the last tick of a stream of two
    states that is not endless. The loss is infinite where no bound is proved.
    """
    if isinstance(theta, BinaryTheta):
        return binary_timeline.price(entries, theta, adversary, span=span)
    return theta.timeline(adversary, entries).price()
