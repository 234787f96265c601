"""The noise and the error of several strides, for every Θ of k states, with numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.strided_sampling import slowest_correlation
from hushmq.pufferfish.thinning.stride_search import tried_strides


@dataclass(frozen=True, slots=True)
class StridedResponse:
    """A stride and the noise for it, if any keeps ε.

    `variance` is that of the worst share of a long window, times its ticks.
    """

    stride: int
    noise: CategoricalNoise | None
    variance: float


def strides(theta: CategoricalTheta, epsilon: float, adversary: Adversary) -> list[StridedResponse]:
    """The noise and the error of several strides; an infinite error where nothing is proved."""

    def of_stride(stride: int) -> StridedResponse:
        try:
            noise = theta.optimal_noise(epsilon, adversary, stride=stride)
        except ValueError:
            return StridedResponse(stride, None, math.inf)
        return StridedResponse(stride, noise, _share_variance(theta, noise, stride))

    return tried_strides(of_stride, slowest_correlation(theta))


def _share_variance(theta: CategoricalTheta, noise: CategoricalNoise, stride: int) -> float:
    """What the noise adds to a state's share, whatever the states are, and what is lost by looking at some ticks."""
    added = max(p * (1.0 - p) for row in noise.rows for p in row) / noise.signal**2
    return stride * added + (theta.sampling_variance(stride) if stride > 1 else 0.0)
