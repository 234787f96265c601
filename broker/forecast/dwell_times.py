"""From how long states last to Θ: a chain of two states that is looked at once per period.

A state that is left at a constant rate 1/d lasts d seconds on average. Looked at every T seconds, such a chain has

    q = d₁/(d₀+d₁)·(1 − e^{−λT}),  r = d₀/(d₀+d₁)·(1 − e^{−λT}),  λ = 1/d₀ + 1/d₁:

the less often one looks, the less one instant says about the next. Publishing every m-th tick of a period T is the same
as a period of m·T.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

from hushmq.broker.contract.policy_message import Assumption
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import BinaryThetaMessage, Interval

DIGITS = 4
"""Digits of the bounds in a policy; they are rounded so that Θ becomes wider."""
LEAST, MOST = 1e-7, 1 - 1e-6


def sampled_chain(dwell: tuple[float, float], period: float) -> tuple[float, float]:
    """Return q and r of a chain whose states last `dwell` seconds on average, looked at every `period` seconds."""
    whole = dwell[0] + dwell[1]
    forgotten = -math.expm1(-period * (1 / dwell[0] + 1 / dwell[1]))
    return dwell[1] / whole * forgotten, dwell[0] / whole * forgotten


def theta_of_dwell(dwell: tuple[float, float], period: float, factor: float) -> BinaryThetaMessage:
    """Return the Θ of all chains whose states last between 1/`factor` and `factor` times `dwell`.

    q rises with 1/d₀ and r with 1/d₁ whatever the other is, and each depends on the other monotonically: the extremes
    are at corners.
    """
    if not (min(dwell) > 0 and math.isfinite(max(dwell)) and period > 0 and factor >= 1):
        raise Problem(f"dwell times of {dwell[0]:g} s and {dwell[1]:g} s: they must be above 0")
    sides = [(seconds / factor, seconds * factor) for seconds in dwell]
    corners = [sampled_chain((one, other), period) for one, other in product(*sides)]
    q, r = zip(*corners, strict=True)
    if min(*q, *r) < LEAST:
        raise Problem(f"period: a state lasts more than ten million times {period:g} s: publish less often")
    return BinaryThetaMessage(q=_outward(min(q), max(q)), r=_outward(min(r), max(r)))


def assumption_of_dwell(
    dwell: tuple[float, float], period: float, *, start: float = 3.0, floor: float = 1.5
) -> Assumption:
    """Return Θ before any evidence and the Θ that is never narrowed, from dwell times known up to these factors."""
    return Assumption(start=theta_of_dwell(dwell, period, start), floor=theta_of_dwell(dwell, period, floor))


def _outward(low: float, high: float) -> Interval:
    """Return an interval with bounds of a few digits that contains both."""
    return Interval(low=_rounded(low, math.floor), high=min(MOST, _rounded(high, math.ceil)))


def _rounded(value: float, whole: Callable[[float], int]) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
    return float(f"{whole(value / unit) * unit:.{DIGITS}g}")
