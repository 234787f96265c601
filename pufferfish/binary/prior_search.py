"""The ratios of the prior adversary at the runs of a timeline with q+r < 1: exact, in constant time per run.

Let A and C be the likelihood ratios of all ticks before and after a tick. Within a run both are Möbius orbits, and
log A + log C has one extreme point, where A = C. It is a maximum if both enter below the run's fixed point
(docs/theory.md, Theorem 7). It suffices to evaluate the two ends of a run and the ticks next to the crossing.
"""

from __future__ import annotations

import math

from hushmq.pufferfish.binary.directed_chain import DirectedChain
from hushmq.pufferfish.mobius.ratio_orbit import Orbit
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns


def boundary_ratios(
    runs: TiltRuns, chain: DirectedChain, window: range, *, backwards: bool = False
) -> list[float]:
    """For each run of the window, the ratio of all ticks before its first tick (backwards: after its last)."""
    edges, tilts = runs.edges, runs.tilts
    if backwards:
        far = runs.runs_touching(edges[window.stop], edges[window.stop] + chain.forgetting_time).stop
        order, end = range(far - 1, window.start - 1, -1), far == len(tilts)
    else:
        far = runs.runs_touching(edges[window.start] - chain.forgetting_time, edges[window.start]).start
        order, end = range(far, window.stop), far == 0
    # The initial value is forgotten; starting from the largest ratio keeps the result an upper bound.
    ratio = 1.0 if end else chain.largest_ratio
    found = []
    for k in order:
        if window.start <= k < window.stop:
            found.append(ratio)
        ratio = chain.orbit(tilts[k]).advance(edges[k + 1] - edges[k], ratio)
    return found[::-1] if backwards else found


def largest_in_run(orbit: Orbit, last: int, left: float, right: float) -> tuple[float, int]:
    """The largest log A + log C in a run, and its offset: at an end of the run or next to the crossing A = C."""
    fixed_point, low = orbit.fixed_point, -orbit.fixed_point / orbit.kappa
    places = {0, last}
    if left < fixed_point and right < fixed_point and last > 1:
        # (C−C∞)/(C−C₋) is multiplied by μ at each tick; A and C cross where these quotients are equal.
        ahead = (fixed_point - left) * (right - low) / ((fixed_point - right) * (left - low))
        crossing = math.floor(0.5 * (last - math.log(ahead) / orbit.log_mu))
        places.update(
            place for place in (crossing - 1, crossing, crossing + 1, crossing + 2) if 0 < place < last
        )
    return max((math.log(orbit.advance(i, left) * orbit.advance(last - i, right)), i) for i in places)
