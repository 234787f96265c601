"""The noise for a chain with regimes: its loss, the largest tilts within ε, and the stride that tells most.

The loss is exact where the chain is MTP2 (pufferfish/regimes/product_tilt.py) and otherwise certified
(pufferfish/regimes/regime_bound.py), against the prior adversary: who knows bits as well is not blocked by them, for
the regime goes on behind them.
"""

from __future__ import annotations

import numpy as np

from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.false_position import largest_within
from hushmq.pufferfish.regimes.product_tilt import TiltedStream, directed_loss
from hushmq.pufferfish.regimes.regime_bound import StridedRegimes
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.thinning.stride_search import StridedNoise, least_error, tried_strides
from hushmq.pufferfish.thinning.strided_noise import PRECISION

_CORRECTIONS = 8
_OVERSHOOT = 1.0001
_MARGIN = 1e-7
"""The share of ε that is left unused: by so much the certified loss of almost equal tilts may differ."""


def directed_losses(chain: RegimeChain, tau0: float, tau1: float, stride: int = 1) -> tuple[float, float]:
    """The loss towards either bit of an endless stream with these tilts at every `stride`-th tick."""
    if chain.is_mtp2:
        return directed_loss(chain, 0, tau0, stride), directed_loss(chain, 1, tau1, stride)
    # A new one each time: what a search has learned about one tilt must not change the price of another.
    return StridedRegimes(chain, stride).directed_losses(tau0, tau1)


def loss(chain: RegimeChain, tau0: float, tau1: float, stride: int = 1) -> float:
    """The larger of the two."""
    return max(directed_losses(chain, tau0, tau1, stride))


def largest_tilts(chain: RegimeChain, epsilon: float, stride: int = 1) -> tuple[float, float]:
    """The largest tilts found towards either bit whose loss is within ε."""
    goal = epsilon * (1 - 1e-9)
    tilts = [_directed_tilt(chain, bit, goal, stride) for bit in range(2)]
    if chain.is_mtp2:
        return tilts[0], tilts[1]
    # The certified loss exceeds that of the product tilt a little: aim below ε by what it exceeded ε by.
    goal = epsilon * (1 - 2 * _MARGIN)
    goals = [goal, goal]
    for _ in range(_CORRECTIONS):
        found = directed_losses(chain, tilts[0], tilts[1], stride)
        if max(found) <= epsilon * (1 - _MARGIN):
            return tilts[0], tilts[1]
        for bit in range(2):
            if found[bit] > goal:
                goals[bit] = max(goals[bit] - (found[bit] - goal) * _OVERSHOOT, goals[bit] / 4)
                tilts[bit] = _directed_tilt(chain, bit, goals[bit], stride)
    while loss(chain, tilts[0], tilts[1], stride) > epsilon * (1 - _MARGIN):
        tilts = [tau * (1 - 1e-3) for tau in tilts]
    return tilts[0], tilts[1]


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
    kernel = np.array(chain.kernel)
    thinned = np.linalg.matrix_power(kernel, stride)
    sampling = stride * _long_run_variance(chain, thinned) - _long_run_variance(chain, kernel)
    return stride * flips / noise.signal**2 + max(0.0, sampling)


def _long_run_variance(chain: RegimeChain, kernel: np.ndarray) -> float:
    """Σ over all lags of the covariance of the bits of two ticks, by the fundamental matrix."""
    law = np.array(chain.stationary)
    bits = np.arange(len(law)) % 2 - chain.ones
    summed = np.linalg.solve(np.eye(len(law)) - kernel + law[None, :], bits)
    return float(2 * (law * bits) @ summed - (law * bits) @ bits)


def _directed_tilt(chain: RegimeChain, bit: int, epsilon: float, stride: int) -> float:
    """The largest tilt whose product loss towards the bit is within ε.

    Unpublished ticks are left out of the search: they were never the worst, and the result is checked with them.
    """
    tau = largest_within(
        lambda tilt: TiltedStream(chain, bit, tilt, stride).published_loss(), epsilon, epsilon, PRECISION
    )
    if directed_loss(chain, bit, tau, stride) > epsilon:
        tau = largest_within(
            lambda tilt: directed_loss(chain, bit, tilt, stride), epsilon, epsilon, PRECISION
        )
    return tau
