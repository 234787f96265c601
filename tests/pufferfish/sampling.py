"""How far frequencies may stray from their law, with a failure probability that is exact or proved.

A test built on these passes with the true law except with probability `RARE`, and it is clear how far off a law must be
for the same test to reject it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

from scipy.stats import binom

RARE = 1e-8


def plausible(events: int, draws: int, probability: float) -> bool:
    """Whether so many events are within what the binomial law gives, except with probability `RARE`."""
    low, high = binom.interval(1 - RARE, draws, probability)
    return bool(low <= events <= high)


def far(draws: int, probability: float) -> float:
    """So far off a probability must be that `plausible` rejects it: twice the half-width of what it takes."""
    return 12 * math.sqrt(probability * (1 - probability) / draws)


def distance(drawn: Iterable[int], distribution: Callable[[int], float]) -> float:
    """The largest |F_n − F| over the integers, from draws and the law P(X ≤ value)."""
    seen = Counter(drawn)
    total, below, worst = seen.total(), 0, 0.0
    for value in range(min(seen) - 1, max(seen) + 1):
        below += seen[value]
        worst = max(worst, abs(below / total - distribution(value)))
    return worst


def stray(draws: int) -> float:
    """What `distance` stays within except with probability `RARE`, for any law (Massart's constant)."""
    return math.sqrt(math.log(2 / RARE) / (2 * draws))
