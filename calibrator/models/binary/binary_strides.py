"""Θ of ticks and of strides: a stream that publishes one of every m ticks shows the chain of m steps.

Its transition probabilities are q_m = q·g and r_m = r·g with g = (1−λ^m)/(1−λ), λ = 1−q−r. Backwards, with
s = q_m + r_m, q = q_m·h(s) and r = r_m·h(s), h(s) = (1 − (1−s)^(1/m))/s. h rises with s, from 1/m at 0 to 1 at 1: so q
and r rise with both q_m and r_m, and the corners of a region of strides give the least region of ticks that holds the
roots of all its chains. Chains with a negative correlation are left out: policies with a stride have none.
"""

from __future__ import annotations

import math

from hushmq.pufferfish.binary.binary_theta import BinaryTheta

LEAST, MOST = 1e-9, 1.0 - 1e-9
"""Probabilities that a region never goes beyond."""


def for_ticks(strides: BinaryTheta, stride: int) -> BinaryTheta:
    """The chains whose `stride` steps are in this region.

    Where a region reaches s ≥ 1, its chains may have no correlation left to tell: then q and r are at most those of a
    chain that forgets in one tick.
    """
    if stride == 1:
        return strides
    low = _root(strides.q_low + strides.r_low, stride)
    high = _root(strides.q_high + strides.r_high, stride)
    return BinaryTheta(
        max(LEAST, strides.q_low * low),
        min(MOST, strides.q_high * high),
        max(LEAST, strides.r_low * low),
        min(MOST, strides.r_high * high),
    )


def for_strides(ticks: BinaryTheta, stride: int) -> BinaryTheta:
    """A region with the `stride` steps of this one's slowest and fastest chain as its corners."""
    if stride == 1:
        return ticks
    low, high = _power(ticks.q_low + ticks.r_low, stride), _power(ticks.q_high + ticks.r_high, stride)
    (q_low, q_high), (r_low, r_high) = (
        sorted(min(MOST, max(LEAST, one)) for one in ends)
        for ends in ((ticks.q_low * low, ticks.q_high * high), (ticks.r_low * low, ticks.r_high * high))
    )
    return BinaryTheta(q_low, q_high, r_low, r_high)


def _root(total: float, stride: int) -> float:
    """h(s)."""
    if total >= 1.0:
        return 1.0
    return -math.expm1(math.log1p(-total) / stride) / total


def _power(total: float, stride: int) -> float:
    """g: how many times the probabilities of a step those of `stride` steps are."""
    if total >= 1.0:
        return 1.0 / total
    return -math.expm1(stride * math.log1p(-total)) / total
