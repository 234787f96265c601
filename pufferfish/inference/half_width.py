"""The half-width of a confidence interval for a released frequency: sampling error, Laplace noise and bounded bias.

Sampling error is normal with variance σ²; Laplace noise has variance 2b². Their sum exceeds x with probability

    Φ̄(x/σ) + ½·e^{σ²/2b²}·( e^{−x/b}·Φ(x/σ − σ/b) − e^{x/b}·Φ̄(x/σ + σ/b) ).

If σ is much larger than b, the sum is treated as normal. A sum of independent Laplace variables has lighter tails than
one Laplace variable of the same variance, so a single term stands for all of them. The density of the sum is symmetric
and unimodal, so an interval misses most often if the bias is largest: on one side with the probability of exceeding
x − bias, on the other with that of exceeding x + bias.
"""

from __future__ import annotations

import math
from functools import lru_cache

from hushmq.pufferfish.bisection import bisection

CONFIDENCE = 0.95
NORMAL_FROM = 8.0
"""The σ/b beyond which the sum is treated as normal."""


@lru_cache(maxsize=64)
def half_width(
    sampling: float, laplace: float, confidence: float = CONFIDENCE, *, bias: float = 0.0
) -> float:
    """The x that |sum| exceeds with probability at most 1 − confidence, from both variances and the largest bias."""
    whole = math.sqrt(sampling + laplace)
    sigma, b = math.sqrt(sampling), math.sqrt(laplace / 2)
    if sigma > NORMAL_FROM * b:
        sigma, b = whole, 0.0

    def too_narrow(x: float) -> bool:
        return _beyond(x - bias, sigma, b) + _beyond(x + bias, sigma, b) > 1 - confidence

    _, high = bisection(too_narrow, bias, bias - whole * math.log((1 - confidence) / 2), steps=50)
    return high


def _beyond(x: float, sigma: float, b: float) -> float:
    """P(sum > x) for x ≥ 0."""
    if sigma == 0:
        return math.exp(-x / b) / 2
    normal = _upper(x / sigma)
    if b == 0:
        return normal
    if normal == 0:  # the normal tail has underflowed: only the Laplace term remains
        return math.exp((sigma / b) ** 2 / 2 - x / b) / 2
    inner = math.exp(-x / b) * _upper(sigma / b - x / sigma) - math.exp(x / b) * _upper(x / sigma + sigma / b)
    return normal + math.exp((sigma / b) ** 2 / 2) * inner / 2


def _upper(z: float) -> float:
    """P(standard normal > z)."""
    return math.erfc(z / math.sqrt(2)) / 2
