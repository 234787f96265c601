"""The confidence of regions, and by how much one is widened before it overrules the policy."""

from __future__ import annotations

import math

CONFIDENCE = 0.95
"""With this probability a learned Θ holds the chains, at all theta updates together."""
WIDENING = 1.5
"""The factor, in angles arcsin √p, by which a region is widened before it is said to exclude something clearly."""


def widened(low: float, high: float) -> tuple[float, float]:
    """An interval of probabilities, widened by WIDENING."""
    a, b = math.asin(math.sqrt(low)), math.asin(math.sqrt(high))
    more = (WIDENING - 1) * (b - a) / 2
    return math.sin(max(0.0, a - more)) ** 2, math.sin(min(math.pi / 2, b + more)) ** 2
