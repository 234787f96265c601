"""The adversary who knows nothing, on a timeline with q+r < 1: exact, one step per run.

The ratios A of all ticks before and C of all ticks after one travel through a run as Möbius orbits. Within it
log A + log C has one extreme, where A = C: a maximum if both come from below the run's limit (docs/theory.md,
Theorem 7). So a run is decided by its two ends and the ticks next to that crossing.
"""

from __future__ import annotations

import math

from hushmq.pufferfish.binary.directed_chain import Track
from hushmq.pufferfish.binary.ratio_orbit import Orbit
from hushmq.pufferfish.timeline.tilt_runs import Runs, nats

Best = tuple[float, int | None]


def search(runs: Runs, track: Track, window: range, best: Best) -> Best:
    """The largest loss in the runs of the window, and its tick; or the best so far."""
    edges, tilts = runs.edges, runs.tilts
    lefts = ratios(runs, track, window)
    rights = ratios(runs, track, window, backwards=True)
    loss, tick = best
    for k, left, right in zip(window, lefts, rights, strict=True):
        orbit, tau = track.orbit(tilts[k]), nats(tilts[k][track.state])
        limit = orbit.limit
        # No tick of the run can have more than this.
        if tau + math.log(max(left, limit) * max(right, limit)) <= loss:
            continue
        here, place = largest(orbit, edges[k + 1] - edges[k] - 1, left, right)
        if tau + here > loss:
            loss, tick = tau + here, edges[k] + place
    return loss, tick


def ratios(runs: Runs, track: Track, window: range, *, backwards: bool = False) -> list[float]:
    """For each run of the window, the ratio of everything before its first tick (after its last)."""
    edges, tilts = runs.edges, runs.tilts
    if backwards:
        far = runs.covering(edges[window.stop], edges[window.stop] + track.reach).stop
        order, end = range(far - 1, window.start - 1, -1), far == len(tilts)
    else:
        far = runs.covering(edges[window.start] - track.reach, edges[window.start]).start
        order, end = range(far, window.stop), far == 0
    # Beyond the reach any start will do; one that is too large keeps the result certified.
    ratio = 1.0 if end else track.cap
    found = []
    for k in order:
        if window.start <= k < window.stop:
            found.append(ratio)
        ratio = track.orbit(tilts[k]).after(edges[k + 1] - edges[k], ratio)
    return found[::-1] if backwards else found


def largest(orbit: Orbit, last: int, left: float, right: float) -> tuple[float, int]:
    """The largest log A + log C in a run and its offset: at one of its ends or next to the crossing A = C."""
    limit, low = orbit.limit, -orbit.limit / orbit.kappa
    places = {0, last}
    if left < limit and right < limit and last > 1:
        # (C−C∞)/(C−C₋) shrinks by μ a tick, so A and C cross where the two have become equal.
        ahead = (limit - left) * (right - low) / ((limit - right) * (left - low))
        crossing = math.floor(0.5 * (last - math.log(ahead) / orbit.log_mu))
        places.update(
            place for place in (crossing - 1, crossing, crossing + 1, crossing + 2) if 0 < place < last
        )
    return max((math.log(orbit.after(i, left) * orbit.after(last - i, right)), i) for i in places)
