"""How far a released frequency may be off: the interval of a sum of sampling error and Laplace noise.

Sampling error is normal with variance σ²; Laplace noise has variance 2b². Their sum exceeds x with probability

    Φ̄(x/σ) + ½·e^{σ²/2b²}·( e^{−x/b}·Φ(x/σ − σ/b) − e^{x/b}·Φ̄(x/σ + σ/b) ).

Where σ is much above b the sum is normal. Several independent Laplace terms together have lighter tails than one of
their total variance, so one stands for all.
"""

from __future__ import annotations

import math
from statistics import NormalDist

CONFIDENCE = 0.95
NORMAL_FROM = 8.0
"""σ/b beyond which the Laplace part is lost in the normal one."""
_NORMAL = NormalDist()


def half_width(sampling: float, laplace: float, confidence: float = CONFIDENCE) -> float:
    """The x that |sum| exceeds with probability 1 − confidence, for the two variances."""
    tail = (1 - confidence) / 2
    whole = math.sqrt(sampling + laplace)
    sigma, b = math.sqrt(sampling), math.sqrt(laplace / 2)
    if sigma > NORMAL_FROM * b:
        return whole * _NORMAL.inv_cdf(1 - tail)
    low, high = 0.0, whole * -math.log(tail)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _beyond(middle, sigma, b) > tail else (low, middle)
    return high


def _beyond(x: float, sigma: float, b: float) -> float:
    if sigma == 0:
        return math.exp(-x / b) / 2
    inner = math.exp(-x / b) * _upper(sigma / b - x / sigma) - math.exp(x / b) * _upper(x / sigma + sigma / b)
    return _upper(x / sigma) + math.exp((sigma / b) ** 2 / 2) * inner / 2


def _upper(z: float) -> float:
    """P(standard normal > z)."""
    return math.erfc(z / math.sqrt(2)) / 2
