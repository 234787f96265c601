"""The odds spread of a Θ of two states: how far the log-odds of the state at an instant can differ within Θ.

The share p of state 1 moves in one step to q + (1−q−r)·p, which rises in q and falls in r. The shares between l and u
are closed under every step of Θ if u is the largest image of them, which (q+, r−) has, and l the least, of (q−, r+).
Where these two chains have q+r ≤ 1 the ends are their own long-run shares, odds q+/r− and q−/r+; beyond, a chain that
changes in time alternates between the ends and reaches further than any stationary one.
"""

from __future__ import annotations

import math
from functools import lru_cache

from hushmq.pufferfish.binary.binary_theta import BinaryTheta

_SLACK = 2.0**-46
"""Exceeds the relative error of a few dozen rounded operations."""


@lru_cache(maxsize=1024)
def odds_spread(theta: BinaryTheta) -> float:
    """The width of log P(X=1)/P(X=0) over the chains of Θ, rounded up; 0 for a single chain."""
    if theta.single:
        return 0.0
    low, high = reachable_shares(theta)
    return (_logit(*high) - _logit(*low)) * (1.0 + _SLACK) + _SLACK


def reachable_shares(theta: BinaryTheta) -> tuple[tuple[float, float], tuple[float, float]]:
    """The least and the largest share of state 1, each with that of state 0: what every step of Θ maps into itself."""
    up, down = (theta.q_high, theta.r_low), (theta.q_low, theta.r_high)
    high, low = _long_run(*up), _long_run(*down)
    if sum(up) > 1.0 and sum(down) > 1.0:
        # Each end is the image of the other one: two linear equations.
        ahead, back = 1.0 - sum(up), 1.0 - sum(down)
        share = (up[0] + ahead * down[0]) / (1.0 - ahead * back)
        low = _image(*down, (share, 1.0 - share))
        high = _image(*up, low)
    elif sum(up) > 1.0:
        high = _image(*up, low)
    elif sum(down) > 1.0:
        low = _image(*down, high)
    return low, high


def _long_run(q: float, r: float) -> tuple[float, float]:
    return q / (q + r), r / (q + r)


def _image(q: float, r: float, shares: tuple[float, float]) -> tuple[float, float]:
    """The shares of states 1 and 0 after one step."""
    one, zero = shares
    return q * zero + (1.0 - r) * one, (1.0 - q) * zero + r * one


def _logit(one: float, zero: float) -> float:
    return math.log(one) - math.log(zero)
