"""MQMExact (SWC Algorithm 3) on an endless stationary stream, for every chain of a categorical Θ.

A quilt a instants before the secret and b after it leaves a + b − 1 instants near and has an influence of at most
E_left(a) + E_right(b), where E_right(h) = max_{x,y,u} log P^h[x,u]/P^h[y,u] (SWC Definition 4.1, equation 5) and
E_left is the same for the time reversal. For Θ each ratio is bounded by that of the upper to the lower entry. A tilt
τ at every instant has a loss of at most (a + b − 1)·τ + E_left(a) + E_right(b) against the *prior* adversary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals

FARTHEST = 256
"""The largest distance of a quilt node."""


def quilt_tilt(theta: CategoricalTheta, epsilon: float) -> float:
    """The largest tilt with a loss of at most ε by some quilt for every chain of Θ; 0 or less if there is none."""
    best = 0.0
    futures = list(_influences(theta.forward))
    for a, past in _influences(theta.backward):
        for b, future in futures:
            best = max(best, (epsilon - past - future) / (a + b - 1))
    return best * (1 - 2.0**-48)


def _influences(intervals: TransitionIntervals) -> Iterator[tuple[int, float]]:
    """Distances with their max-influences; only those that are smaller than all at shorter distances."""
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
