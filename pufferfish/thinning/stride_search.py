"""The error of a window that every m-th tick is published of, and the search for the stride that tells most.

Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.mobius.strided_steps import LONGEST_STRIDE


@dataclass(frozen=True, slots=True)
class StridedNoise:
    """A stride and the noise for it; `variance` is that of a long window's share, times its ticks."""

    stride: int
    noise: BinaryNoise
    variance: float


class Tried(Protocol):
    """A stride and its error."""

    @property
    def stride(self) -> int:
        """The stride."""

    @property
    def variance(self) -> float:
        """The variance of a long window's share, times its ticks."""


TriedT = TypeVar("TriedT", bound=Tried)


def least_error(tried: Iterable[TriedT]) -> TriedT:
    """The stride and the noise with the least error of a long window's share."""
    return min(tried, key=lambda one: one.variance)


def tried_strides(of_stride: Callable[[int], TriedT], slowest: float) -> list[TriedT]:
    """Strides up to four times the time in which the chain forgets: by doubling, then closer to the best, in order.

    `slowest` is the largest correlation over one tick of anything in the chain.
    """
    longest = LONGEST_STRIDE
    if slowest < 1.0:
        longest = max(1, min(LONGEST_STRIDE, round(-4.0 / math.log(max(slowest, 1e-9)))))
    tried: dict[int, TriedT] = {}
    wanted = [1 << power for power in range(longest.bit_length())]
    for factor in (1.0, 1.4, 1.15):
        if tried:
            best = least_error(tried.values()).stride
            wanted = [max(1, round(best / factor)), min(longest, round(best * factor))]
        for stride in wanted:
            if stride not in tried:
                tried[stride] = of_stride(stride)
    return [tried[stride] for stride in sorted(tried)]


def share_variance(q: float, r: float, noise: BinaryNoise, stride: int) -> float:
    """The variance of the estimated share of ones of a long window about its true share, times the window's ticks.

    That of the noise on the published ticks, and that of taking every `stride`-th tick for all of them.
    """
    ones = q / (q + r)
    flips = (1 - ones) * noise.rho0 * (1 - noise.rho0) + ones * noise.rho1 * (1 - noise.rho1)
    return stride * flips / noise.signal**2 + sampling_variance(q, r, stride)


def sampling_variance(q: float, r: float, stride: int) -> float:
    """The part of `share_variance` that is there without noise: every `stride`-th tick stands for all of them."""
    ones, correlation = q / (q + r), 1.0 - q - r
    thinned = correlation**stride
    sampling = stride * (1 + thinned) / (1 - thinned) - (1 + correlation) / (1 - correlation)
    return max(0.0, ones * (1 - ones) * sampling)
