"""MQMExact (SWC Algorithm 3) on an endless stationary stream, for every chain of an interval class at once.

A quilt a instants before the secret and b after it leaves a + b − 1 instants inside, and tells of the secret
E_left(a) + E_right(b) at most, where E_right(h) = max_{x,y,u} log P^h[x,u]/P^h[y,u] (SWC Definition 4.1, equation 5)
and E_left is the same for the time reversal. For a class the ratio of the upper bound to the lower stands in for each.
A tilt τ at every instant then loses at most (a + b − 1)·τ + E_left(a) + E_right(b), against the *prior* adversary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from hushmq.pufferfish.categorical.transition_intervals import Class, Intervals

FARTHEST = 256
"""No quilt is looked for beyond."""


def quilt_tilt(theta: Class, epsilon: float) -> float:
    """The largest tilt that a quilt keeps within ε for every chain of Θ; 0 where no quilt does."""
    best = 0.0
    futures = list(_influences(theta.forward))
    for a, past in _influences(theta.backward):
        for b, future in futures:
            best = max(best, (epsilon - past - future) / (a + b - 1))
    return best * (1 - 2.0**-48)


def _influences(intervals: Intervals) -> Iterator[tuple[int, float]]:
    """Distances, and the max-influence of the instant so far away; farther ones only where they tell less."""
    least = math.inf
    power = intervals.tightened()
    for hops in range(1, FARTHEST + 1):
        influence = max(
            _log_ratio(max(above), min(below))
            for above, below in zip(zip(*power.high, strict=True), zip(*power.low, strict=True), strict=True)
        )
        if influence < least:
            least = influence
            yield hops, influence * (1 + 2.0**-48)
        power = intervals.times(power)


def _log_ratio(above: float, below: float) -> float:
    if above == 0.0:
        return 0.0
    return math.log(above / below) if below > 0.0 else math.inf
