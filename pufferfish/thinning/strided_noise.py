"""The noise for one binary chain of which every m-th tick is published, and the stride that tells most."""

from __future__ import annotations

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary import stream_loss
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.false_position import largest_within
from hushmq.pufferfish.thinning.stride_search import (
    StridedNoise,
    least_error,
    share_variance,
    tried_strides,
)
from hushmq.pufferfish.thinning.strided_chain import StridedChain

PRECISION = 1e-9
"""The relative error of a tilt; it is on the safe side."""

_CORRECTIONS = 40


def largest_tilts(
    q: float, r: float, epsilon: float, *, stride: int, adversary: Adversary
) -> tuple[float, float]:
    """The largest tilts found towards 0 and towards 1 whose loss at every tick is within ε."""
    tau0, tau1 = _published_tilts(q, r, epsilon, stride, adversary)
    if stride == 1:
        return tau0, tau1
    # Unpublished ticks were never the worst; the result is checked with them.
    for _ in range(_CORRECTIONS):
        found = StridedChain(q, r, stride, tau0, tau1).loss(adversary)
        if found <= epsilon:
            return tau0, tau1
        tau0, tau1 = (tau * (1 - 1e-9) * epsilon / found for tau in (tau0, tau1))
    raise ValueError(f"no noise was found that keeps {epsilon:g} at every tick with a stride of {stride}")


def _published_tilts(
    q: float, r: float, epsilon: float, stride: int, adversary: Adversary
) -> tuple[float, float]:
    """The largest tilts within ε at published ticks.

    Where a stride keeps the order of likelihood ratios, a direction depends on its own tilt alone. Where it turns it
    around, both are the same.
    """

    def towards(bit: int) -> float:
        return largest_within(
            lambda tau: StridedChain(q, r, stride, tau, tau).published_losses(adversary)[bit],
            epsilon * (1 - 1e-9),
            epsilon,
            PRECISION,
        )

    if stride == 1:
        return stream_loss.largest_tilts(BinaryTheta.point(q, r), epsilon, adversary)
    tau0, tau1 = towards(0), towards(1)
    if q + r > 1.0 and stride % 2 == 1:
        tau0 = tau1 = min(tau0, tau1)
    return tau0, tau1


def strided_noise(q: float, r: float, epsilon: float, *, stride: int, adversary: Adversary) -> StridedNoise:
    """The noise for one stride with the most signal within ε."""
    noise = BinaryNoise.of_tilts(*largest_tilts(q, r, epsilon, stride=stride, adversary=adversary))
    return StridedNoise(stride, noise, share_variance(q, r, noise, stride))


def best_stride(q: float, r: float, epsilon: float, adversary: Adversary) -> StridedNoise:
    """The stride and the noise with the least error of a long window's share."""
    best = least_error(strides(q, r, epsilon, adversary)).stride
    return strided_noise(q, r, epsilon, stride=best, adversary=adversary)


def strides(q: float, r: float, epsilon: float, adversary: Adversary) -> list[StridedNoise]:
    """The noise and the error of several strides, by their loss at published ticks."""

    def at_published(stride: int) -> StridedNoise:
        noise = BinaryNoise.of_tilts(*_published_tilts(q, r, epsilon, stride, adversary))
        return StridedNoise(stride, noise, share_variance(q, r, noise, stride))

    return tried_strides(at_published, abs(1.0 - q - r))
