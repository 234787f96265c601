"""The largest argument at which an increasing function stays within a bound."""

from __future__ import annotations

import math
from collections.abc import Callable

FLOOR = 1e-30
"""No argument is looked for below this fraction of the first one tried."""


def largest_within(function: Callable[[float], float], bound: float, high: float, precision: float) -> float:
    """The largest x ≤ high found with function(x) ≤ bound, give or take the precision; function(0) must be 0.

    False position, the weight of an end that does not move halved, so that both close in (the Illinois method). What
    is returned has been tried.
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
        # Never so close to an end that the other could not come close.
        x = max(min(x, high - precision * high / 2), low + precision * high / 2)
        excess = function(x) - bound
        if excess > 0:
            under = under / 2 if moved > 0 else under
            high, over, moved = x, excess, 1
        else:
            over = over / 2 if moved < 0 else over
            low, under, moved = x, excess, -1
    return low
