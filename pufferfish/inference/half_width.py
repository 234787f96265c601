"""How far a released frequency may be off: the interval of a sum of sampling error, Laplace noise and a bounded bias.

Sampling error is normal with variance σ²; Laplace noise has variance 2b². Their sum exceeds x with probability

    Φ̄(x/σ) + ½·e^{σ²/2b²}·( e^{−x/b}·Φ(x/σ − σ/b) − e^{x/b}·Φ̄(x/σ + σ/b) ).

Where σ is much above b the sum is normal. Several independent Laplace terms together have lighter tails than one of
their total variance, so one stands for all. The sum is symmetric about 0 and the rarer the further from it, so an
interval of given width misses most often where the bias is largest: then on one side with the probability beyond
x − bias, on the other with that beyond x + bias.
"""

from __future__ import annotations

import math
from functools import lru_cache

CONFIDENCE = 0.95
NORMAL_FROM = 8.0
"""σ/b beyond which the Laplace part is lost in the normal one."""


@lru_cache(maxsize=64)
def half_width(
    sampling: float, laplace: float, confidence: float = CONFIDENCE, *, bias: float = 0.0
) -> float:
    """The x that |sum| exceeds with probability 1 − confidence at most, for the two variances and the largest bias."""
    whole = math.sqrt(sampling + laplace)
    sigma, b = math.sqrt(sampling), math.sqrt(laplace / 2)
    if sigma > NORMAL_FROM * b:
        sigma, b = whole, 0.0
    low, high = bias, bias - whole * math.log((1 - confidence) / 2)
    for _ in range(50 if whole else 0):
        middle = (low + high) / 2
        missed = _beyond(middle - bias, sigma, b) + _beyond(middle + bias, sigma, b)
        low, high = (middle, high) if missed > 1 - confidence else (low, middle)
    return high


def _beyond(x: float, sigma: float, b: float) -> float:
    """P(sum > x), for x from 0."""
    if sigma == 0:
        return math.exp(-x / b) / 2
    normal = _upper(x / sigma)
    if b == 0:
        return normal
    if normal == 0:  # so far out that only Laplace noise gets there
        return math.exp((sigma / b) ** 2 / 2 - x / b) / 2
    inner = math.exp(-x / b) * _upper(sigma / b - x / sigma) - math.exp(x / b) * _upper(x / sigma + sigma / b)
    return normal + math.exp((sigma / b) ** 2 / 2) * inner / 2


def _upper(z: float) -> float:
    """P(standard normal > z)."""
    return math.erfc(z / math.sqrt(2)) / 2
