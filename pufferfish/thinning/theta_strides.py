"""The noise and the error of several strides, for every Θ of two states. Standard library only."""

from __future__ import annotations

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.thinning.stride_search import (
    StridedNoise,
    sampling_variance,
    share_variance,
    tried_strides,
)


def strides(theta: BinaryTheta, epsilon: float, adversary: Adversary) -> list[StridedNoise]:
    """The noise and the error of several strides, a stride of 1 by the price of every tick; ValueError if none."""

    def of_stride(stride: int) -> StridedNoise:
        noise = theta.optimal_noise(epsilon, adversary, stride=stride)
        return StridedNoise(stride, noise, largest_share_variance(theta, noise, stride))

    return tried_strides(of_stride, max(abs(1.0 - q - r) for q, r in theta.worst_corners()))


def largest_share_variance(theta: BinaryTheta, noise: BinaryNoise, stride: int) -> float:
    """The variance of the share of a long window about its true share, times its ticks: the largest of the corners."""
    return max(share_variance(q, r, noise, stride) for q, r in _corners(theta))


def largest_sampling_variance(theta: BinaryTheta, stride: int) -> float:
    """The part of it that is there without noise."""
    return max(sampling_variance(q, r, stride) for q, r in _corners(theta))


def _corners(theta: BinaryTheta) -> list[tuple[float, float]]:
    return [(q, r) for q in (theta.q_low, theta.q_high) for r in (theta.r_low, theta.r_high)]
