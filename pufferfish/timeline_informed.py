"""The informed adversary on a timeline with q+r < 1, by branch and bound over ticks and known instants.

A tick's loss is τ + (best known instant on the left) + (best on the right). More tilt never lowers it, so a run
is first bounded by an endless run of the largest tilt in reach. Only runs that this cannot rule out are looked
at, as intervals of ticks that are halved until one tick is left or the bound is no larger than a loss found.
"""

from __future__ import annotations

import heapq
import math
from collections import deque

from pufferfish.known import TOLERANCE, View, largest_in_gap, largest_in_run
from pufferfish.runs import Runs, nats
from pufferfish.timeline_prior import Best
from pufferfish.track import Track

# How a bound was found: from a coarse ceiling, from the ceiling, from the runs themselves.
_CRUDE, _FINE, _PROPER = 0, 1, 2


def search(
    runs: Runs, track: Track, window: range, *, first: int, last: int, endless: bool, best: Best
) -> Best:
    """The largest loss at the ticks first…last, all in runs of the window; or the best so far.

    Endless: the stream goes on beyond the runs on both sides, and instants there may be known too.
    """
    loss, tick = best
    nodes: list[tuple[float, int, int, int, int]] = []  # minus the bound, how it was found, run, ticks
    in_reach = dict(zip(window, _largest_in_reach(runs, track, window), strict=True))
    for k, tilt in in_reach.items():
        bound = nats(runs.tilts[k][track.state]) + 2.0 * track.ceiling(_coarse(tilt))
        if bound > loss + TOLERANCE:
            nodes.append((-bound, _CRUDE, k, max(first, runs.edges[k]), min(last, runs.edges[k + 1] - 1)))
    heapq.heapify(nodes)
    while nodes and -nodes[0][0] > loss + TOLERANCE:
        negative, found, k, low, high = heapq.heappop(nodes)
        middle = (low + high) // 2
        if found == _CRUDE:
            bound = nats(runs.tilts[k][track.state]) + 2.0 * track.ceiling(in_reach[k])
            heapq.heappush(nodes, (-bound, _FINE, k, low, high))
            continue
        # At first look for a loss to beat in the middle; then halve.
        for a, b in (
            [(middle, middle), (low, high)] if found == _FINE else [(low, middle), (middle + 1, high)]
        ):
            if -negative <= loss + TOLERANCE:
                break
            bound = min(-negative, _bound(runs, track, k, a, b, endless, track.ceiling(in_reach[k])))
            if a == b and bound > loss:
                loss, tick = bound, a
            elif bound > loss + TOLERANCE:
                heapq.heappush(nodes, (-bound, _PROPER, k, a, b))
    return loss, tick


def _coarse(tilt: int) -> int:
    """A tilt not below, of few different ones: rounded up to five leading bits."""
    rest = max(0, tilt.bit_length() - 5)
    return -(-tilt >> rest) << rest


def _largest_in_reach(runs: Runs, track: Track, window: range) -> list[int]:
    """For each run of the window, the largest tilt at any tick within reach of one of its ticks."""
    edges, tilts, state = runs.edges, runs.tilts, track.state
    found: list[int] = []
    falling: deque[int] = deque()  # runs whose tilt no later run in reach exceeds
    ahead = runs.covering(edges[window.start] - track.reach, edges[window.start]).start
    for k in window:
        while ahead < len(tilts) and edges[ahead] < edges[k + 1] + track.reach:
            while falling and tilts[falling[-1]][state] <= tilts[ahead][state]:
                falling.pop()
            falling.append(ahead)
            ahead += 1
        while edges[falling[0] + 1] <= edges[k] - track.reach:
            falling.popleft()
        found.append(tilts[falling[0]][state])
    return found


def _bound(runs: Runs, track: Track, k: int, low: int, high: int, endless: bool, ceiling: float) -> float:
    """A bound on the loss at the ticks low…high of run k; for one tick, its loss."""
    start, stop = runs.edges[k], runs.edges[k + 1] - 1
    left = _side(runs, track, k, near=low - start, far=high - start, step=-1, endless=endless)
    right = _side(runs, track, k, near=stop - high, far=stop - low, step=1, endless=endless)
    return nats(runs.tilts[k][track.state]) + min(left, ceiling) + min(right, ceiling)


def _side(runs: Runs, track: Track, k: int, *, near: int, far: int, step: int, endless: bool) -> float:
    """The largest V on one side for ticks with near … far ticks of their own run on that side."""
    edges, tilts, base, soft = runs.edges, runs.tilts, track.base, track.soft
    own = track.orbit(tilts[k])
    best = track.within(tilts[k], far)
    one, other = View(own.matrix(near), near), View(own.matrix(far), far)
    while True:
        # Whatever is known further away, the ratios stay below those from a known 0 just here.
        if one.ticks > 0:
            furthest = max(one.through(math.inf), other.through(math.inf))
            rest = math.log(furthest / base.from1(one.ticks))
            if rest <= best + TOLERANCE:
                return max(best, rest)
        k += step
        if not 0 <= k < len(tilts):
            if endless:
                return max(best, largest_in_gap(one, other, base, ticks=None, soft=soft))
            return max(best, *(math.log(view.through(1.0)) for view in (one, other)))
        ticks, orbit = edges[k + 1] - edges[k], track.orbit(tilts[k])
        if orbit is base:
            best = max(best, largest_in_gap(one, other, base, ticks=ticks, soft=soft))
        else:
            best = largest_in_run(one, other, orbit, base, ticks=ticks, soft=soft, floor=best)
        step_through = orbit.matrix(ticks)
        one = View(one.through.then(step_through), one.ticks + ticks)
        other = View(other.through.then(step_through), other.ticks + ticks)
