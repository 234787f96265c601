"""What a count of events says for certain about their probability: Clopper and Pearson's bounds.

Of so many independent draws with an unknown probability p, so many were events. `lowest` is above p with probability
at most `error`, whatever p is, and `highest` is below p with probability at most `error`. Standard library only.
"""

from __future__ import annotations

import math

# The tail is computed to about this relative error; the bounds are moved outwards by more.
_ROUNDING = 1e-6


def lowest(events: int, draws: int, error: float) -> float:
    """The p at which `events` or more of `draws` would be as rare as `error`."""
    _check(events, draws, error)
    if events == 0:
        return 0.0
    aim = math.log(error) - _ROUNDING
    low, high = 0.0, events / draws
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if _log_tail(middle, events, draws) <= aim:
            low = middle
        else:
            high = middle
    return low


def highest(events: int, draws: int, error: float) -> float:
    """The p at which `events` or fewer of `draws` would be as rare as `error`."""
    _check(events, draws, error)
    return 1.0 - lowest(draws - events, draws, error)


def _check(events: int, draws: int, error: float) -> None:
    if not 0 <= events <= draws or draws < 1:
        raise ValueError(
            f"{events} events of {draws} draws; events are from 0 to the draws, of which there is one"
        )
    if not 0.0 < error < 0.5:
        raise ValueError(f"error is {error!r}; it must be inside (0, 1/2)")


def _log_tail(p: float, events: int, draws: int) -> float:
    """The logarithm of P(Bin(draws, p) ≥ events) for 0 < p below the observed share.

    The first term of the tail times Σ of the ratios to it, Σ_j Π_i (n−k−i)/(k+1+i)·p/(1−p): each ratio is below one
    and falls, so the sum ends as soon as what is left of a geometric series is nothing.
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
