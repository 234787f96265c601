"""Clopper and Pearson's exact confidence bounds for a binomial probability.

Given the number of events among independent draws with unknown probability p, `lower_confidence_bound` exceeds p with
probability at most `error`, and `upper_confidence_bound` is below p with probability at most `error`, for every p.
Standard library only.
"""

from __future__ import annotations

import math

# Exceeds the relative error of the tail probability; the bounds are moved outwards by it.
_ROUNDING = 1e-6


def lower_confidence_bound(events: int, draws: int, error: float) -> float:
    """The p with P(Bin(draws, p) ≥ events) = error, rounded down; 0 if there are no events."""
    _check(events, draws, error)
    if events == 0:
        return 0.0
    log_error = math.log(error) - _ROUNDING
    low, high = 0.0, events / draws
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if _log_upper_tail(middle, events, draws) <= log_error:
            low = middle
        else:
            high = middle
    return low


def upper_confidence_bound(events: int, draws: int, error: float) -> float:
    """The p with P(Bin(draws, p) ≤ events) = error, rounded up; 1 if every draw is an event."""
    _check(events, draws, error)
    return 1.0 - lower_confidence_bound(draws - events, draws, error)


def _check(events: int, draws: int, error: float) -> None:
    if not 0 <= events <= draws or draws < 1:
        raise ValueError(
            f"{events} events of {draws} draws; there must be at least one draw, and 0 to as many events"
        )
    if not 0.0 < error < 0.5:
        raise ValueError(f"error is {error!r}; it must be inside (0, 1/2)")


def _log_upper_tail(p: float, events: int, draws: int) -> float:
    """The logarithm of P(Bin(draws, p) ≥ events) for 0 < p below the observed frequency.

    The first term of the tail times Σ_j Π_i (n−k−i)/(k+1+i)·p/(1−p). The ratios of successive terms are below one and
    falling, so the summation stops once a geometric series bounds the remainder below the rounding error.
    """
    if p <= 0.0:
        return -math.inf
    odds = p / (1.0 - p)
    total, term, k = 1.0, 1.0, events
    while k < draws:
        ratio = (draws - k) / (k + 1) * odds
        term *= ratio
        total += term
        k += 1
        if term < 1e-15 * total * (1.0 - ratio):
            break
    log_first = (
        math.lgamma(draws + 1)
        - math.lgamma(events + 1)
        - math.lgamma(draws - events + 1)
        + events * math.log(p)
        + (draws - events) * math.log1p(-p)
    )
    return log_first + math.log(total)
