"""The search for the stride that tells most."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hushmq.pufferfish.binary.binary_noise import BinaryNoise

LONGEST_STRIDE = 1 << 16


@dataclass(frozen=True, slots=True)
class StridedNoise:
    """A stride and the noise for it; `variance` is that of a long window's share, times its ticks."""

    stride: int
    noise: BinaryNoise
    variance: float


def least_error(tried: Iterable[StridedNoise]) -> StridedNoise:
    """The stride and the noise with the least error of a long window's share."""
    return min(tried, key=lambda one: one.variance)


def tried_strides(of_stride: Callable[[int], StridedNoise], slowest: float) -> list[StridedNoise]:
    """Strides up to four times the time in which the chain forgets: by doubling, then closer to the best, in order.

    `slowest` is the largest correlation over one tick of anything in the chain.
    """
    longest = LONGEST_STRIDE
    if slowest < 1.0:
        longest = max(1, min(LONGEST_STRIDE, round(-4.0 / math.log(max(slowest, 1e-9)))))
    tried: dict[int, StridedNoise] = {}
    wanted = [1 << power for power in range(longest.bit_length())]
    for factor in (1.0, 1.4, 1.15):
        if tried:
            best = least_error(tried.values()).stride
            wanted = [max(1, round(best / factor)), min(longest, round(best * factor))]
        for stride in wanted:
            if stride not in tried:
                tried[stride] = of_stride(stride)
    return [tried[stride] for stride in sorted(tried)]
