"""The noise for a chain with regimes, and the stride that tells most."""

from __future__ import annotations

import numpy as np

from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_sampling import sampling_variance
from hushmq.pufferfish.regimes.regime_tilts import largest_tilts
from hushmq.pufferfish.thinning.stride_search import StridedNoise, least_error, tried_strides


def optimal_noise(chain: RegimeChain, epsilon: float, stride: int = 1) -> BinaryNoise:
    """The noise with the most signal whose loss is within ε."""
    return BinaryNoise.of_tilts(*largest_tilts(chain, epsilon, stride))


def strided_noise(chain: RegimeChain, epsilon: float, stride: int) -> StridedNoise:
    """The noise for one stride."""
    noise = optimal_noise(chain, epsilon, stride)
    return StridedNoise(stride, noise, share_variance(chain, noise, stride))


def best_stride(chain: RegimeChain, epsilon: float) -> StridedNoise:
    """The stride and the noise with the least error of a long window's share."""
    return least_error(strides(chain, epsilon))


def strides(chain: RegimeChain, epsilon: float) -> list[StridedNoise]:
    """The noise and the error of several strides."""
    slowest = sorted(abs(np.linalg.eigvals(np.array(chain.kernel))))[-2]
    return tried_strides(lambda stride: strided_noise(chain, epsilon, stride), float(slowest))


def share_variance(chain: RegimeChain, noise: BinaryNoise, stride: int) -> float:
    """The variance of the estimated share of ones of a long window about its true share, times the window's ticks.

    That of the noise on the published ticks, and that of taking every `stride`-th tick for all of them.
    """
    ones = chain.ones
    flips = (1 - ones) * noise.rho0 * (1 - noise.rho0) + ones * noise.rho1 * (1 - noise.rho1)
    return stride * flips / noise.signal**2 + sampling_variance(chain, stride)


def window_moments(chain: RegimeChain, ticks: int) -> tuple[float, float]:
    """The variance of a window's share of ones, and its correlation with that of the next window.

    With b the bits less their mean and Q = P − 1π, the covariance over h ticks is (π∘b)·Q^h·b; sums of powers of Q are
    those of a geometric series.
    """
    law, one = np.array(chain.stationary), np.eye(2 * chain.regimes)
    bits = np.arange(len(law)) % 2 - chain.ones
    fading = np.array(chain.kernel) - law[None, :]
    summed = np.linalg.inv(one - fading)
    within = (one - np.linalg.matrix_power(fading, ticks)) @ summed
    spread, across = law * bits, fading @ (ticks * one - within) @ summed
    variance = float(ticks * (spread @ bits) + 2 * (spread @ across @ bits)) / ticks**2
    covariance = float(spread @ fading @ within @ within @ bits) / ticks**2
    if variance <= 0.0:
        return 0.0, 0.0
    return variance, min(1.0, max(0.0, covariance / variance))
