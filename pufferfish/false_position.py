"""The largest argument at which an increasing function stays within a bound."""

from __future__ import annotations

import math
from collections.abc import Callable

FLOOR = 1e-30
"""The smallest argument searched, as a fraction of the first one tried."""


def largest_within(function: Callable[[float], float], bound: float, high: float, precision: float) -> float:
    """The largest x ≤ high with function(x) ≤ bound, up to a relative `precision`; function must rise from 0 at 0.

    The Illinois variant of false position. The returned x has been evaluated; ValueError if none above FLOOR·high is
    within the bound.
    """
    least = high * FLOOR
    over = function(high) - bound
    if over <= 0:
        return high
    low, under, moved = 0.0, -bound, 0
    while high - low > precision * high:
        if high < least:
            raise ValueError(f"nothing above 0 stays within {bound:g}")
        x = low - (high - low) * under / (over - under) if math.isfinite(over) else (low + high) / 2
        # Keep a distance from both ends so that the bracket shrinks from both sides.
        x = max(min(x, high - precision * high / 2), low + precision * high / 2)
        excess = function(x) - bound
        if excess > 0:
            under = under / 2 if moved > 0 else under
            high, over, moved = x, excess, 1
        else:
            over = over / 2 if moved < 0 else over
            low, under, moved = x, excess, -1
    return low
