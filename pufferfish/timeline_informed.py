"""The informed adversary on a timeline with q+r < 1, by branch and bound over ticks.

A tick's loss is τ + (best known instant on the left) + (best on the right). On each side the best is no less than
what nothing known gives, which is exact and cheap (timeline_prior), and exceeds it by no more than the envelope
allows. So few runs are left once one loss has been found. Their intervals are bounded in constant time, since
known instants in a tick's own run have a closed form, and halved; only single ticks that remain are looked at
closely, by walking to the instants beyond their own run.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from pufferfish.envelope import Envelope
from pufferfish.known import TOLERANCE, known_at
from pufferfish.orbit import LARGEST, Matrix, Orbit
from pufferfish.runs import Runs, nats
from pufferfish.timeline_prior import Best, largest, ratios
from pufferfish.track import Track

# Runs with more neighbours than this in reach are not compared with each other.
_NEIGHBOURS = 32


class _Run(NamedTuple):
    """A run: its ticks, its tilts, and what reaches its two ends from outside when nothing is known."""

    k: int
    start: int
    stop: int
    tau: float
    tilts: tuple[int, int]
    orbit: Orbit
    left: float
    right: float


def search(
    runs: Runs, track: Track, window: range, *, first: int, last: int, endless: bool, best: Best
) -> Best:
    """The largest loss at the ticks first…last, all in runs of the window; or the best so far.

    Endless: the stream goes on beyond the runs on both sides, and instants there may be known too.
    """
    around = runs.covering(runs.edges[window.start] - track.reach, runs.edges[window.stop] + track.reach)
    views = _views(runs, track, around)
    # ξ = m·C lies between its value where C enters the run and its value at the run's limit.
    gains = [math.exp(min(v.tau, LARGEST)) for v in views]
    lows = [m * min(v.left, v.right, v.orbit.limit) for m, v in zip(gains, views, strict=True)]
    highs = [m * max(v.left, v.right, v.orbit.limit) for m, v in zip(gains, views, strict=True)]
    most = 2.0 * track.envelope(1.0, max(highs)).beyond(0)
    loss, tick = best
    left_over: list[tuple[float, int, int]] = []  # the loss with nothing known, the run, its tick
    for i in range(window.start - around.start, window.stop - around.start):
        v = views[i]
        if (
            v.tau + math.log(max(v.left, v.orbit.limit) * max(v.right, v.orbit.limit)) + most
            > loss + TOLERANCE
        ):
            ignorant, at = largest(v.orbit, v.stop - v.start, v.left, v.right)
            if v.tau + ignorant + most > loss + TOLERANCE:
                left_over.append((v.tau + ignorant, i, v.start + at))
    if not left_over:
        return best
    search_ = _Search(runs, track, views, _Reach(runs, track, around, lows, highs), endless)
    ignorant, i, at = max(left_over)
    if first <= at <= last:
        loss, tick = max((loss, tick), (search_.loss(i, at, loss), at), key=lambda pair: pair[0])
    nodes: list[tuple[float, int, int, int]] = []  # minus the bound, the run, its first and last tick
    for ignorant, i, _ in left_over:
        low, high = max(first, views[i].start), min(last, views[i].stop)
        if ignorant + most > loss + TOLERANCE and low <= high:
            nodes.append((-ignorant - most, i, low, high))
    heapq.heapify(nodes)
    fresh = {i for _, i, _ in left_over}
    seen: set[tuple[tuple[int, int], ...]] = set()
    while nodes and -nodes[0][0] > loss + TOLERANCE:
        negative, i, low, high = heapq.heappop(nodes)
        if i in fresh:
            fresh.discard(i)
            alike = search_.surroundings(i)
            if alike and first <= views[i].start and views[i].stop <= last:
                if alike in seen:
                    continue  # a run with the same surroundings has been looked at already
                seen.add(alike)
            bound = min(-negative, search_.ceiling(i), search_.bound(i, low, high))
            parts = [(low, high)]
        elif low == high:
            here = search_.loss(i, low, loss)
            if here > loss:
                loss, tick = here, low
            continue
        else:
            bound, middle = -negative, (low + high) // 2
            parts = [(low, middle), (middle + 1, high)]
        for a, b in parts:
            here = min(bound, search_.bound(i, a, b))
            if here > loss + TOLERANCE:
                heapq.heappush(nodes, (-here, i, a, b))
    return loss, tick


def _views(runs: Runs, track: Track, around: range) -> list[_Run]:
    edges, tilts = runs.edges, runs.tilts
    sides = zip(around, ratios(runs, track, around), ratios(runs, track, around, backwards=True), strict=True)
    return [
        _Run(
            k,
            edges[k],
            edges[k + 1] - 1,
            nats(tilts[k][track.state]),
            tilts[k],
            track.orbit(tilts[k]),
            left,
            right,
        )
        for k, left, right in sides
    ]


class _Reach:
    """For each run, the extremes of ξ and the largest tilt at any tick within reach of it."""

    def __init__(
        self, runs: Runs, track: Track, around: range, lows: list[float], highs: list[float]
    ) -> None:
        edges = runs.edges[around.start : around.stop + 1]
        tilts = [float(tilts[track.state]) for tilts in runs.tilts[around.start : around.stop]]
        self.high = _largest_in_reach(edges, track.reach, highs)
        self.low = [-low for low in _largest_in_reach(edges, track.reach, [-low for low in lows])]
        self.tilt = [math.ceil(tilt) for tilt in _largest_in_reach(edges, track.reach, tilts)]
        # Outside the timeline ξ is 1.
        for i in range(len(self.low)):
            if edges[i] - track.reach < runs.edges[0] or edges[i + 1] + track.reach > runs.edges[-1]:
                self.low[i] = 1.0


def _largest_in_reach(edges: list[int], reach: int, values: list[float]) -> list[float]:
    """For each run the largest value of a run that has a tick within reach of one of its ticks."""
    found: list[float] = []
    falling: deque[int] = deque()  # runs whose value no later run in reach exceeds
    ahead = 0
    for k in range(len(values)):
        while ahead < len(values) and edges[ahead] < edges[k + 1] + reach:
            while falling and values[falling[-1]] <= values[ahead]:
                falling.pop()
            falling.append(ahead)
            ahead += 1
        while edges[falling[0] + 1] <= edges[k] - reach:
            falling.popleft()
        found.append(values[falling[0]])
    return found


class _Side:
    """One side of a tick: the best V found on it so far, and a bound on all of them."""

    __slots__ = ("_base", "_distance", "_envelope", "_ignorant", "_soft", "_through", "best", "bound")

    def __init__(self, v: _Run, track: Track, envelope: Envelope, ratio: float, own: int) -> None:
        """At first those in the tick's own run, and nothing known."""
        self._base, self._soft, self._envelope = track.base, track.soft, envelope
        self._ignorant = math.log(v.orbit.after(own, ratio))
        self._through, self._distance = v.orbit.matrix(own), own
        self.best = max(track.within(v.tilts, own), self._ignorant)
        self.bound = max(self.best, self._ignorant + envelope.beyond(own))

    def look(self, tick: Matrix) -> None:
        """Look at the next instant beyond."""
        self._through = self._through.then(tick)
        self._distance += 1
        self.best = max(self.best, known_at(self._through, self._base, self._distance, soft=self._soft))
        self.bound = max(self.best, self._ignorant + self._envelope.beyond(self._distance))


class _Search:
    """Bounds and losses at the ticks of the runs looked at."""

    def __init__(self, runs: Runs, track: Track, views: list[_Run], reach: _Reach, endless: bool) -> None:
        self._runs, self._track, self._views, self._reach = runs, track, views, reach
        self._endless = endless

    def _envelope(self, i: int) -> Envelope:
        return self._track.envelope(self._reach.low[i], self._reach.high[i])

    def ceiling(self, i: int) -> float:
        """More tilt never lowers a loss: no tick of the run has more than in an endless run of the largest."""
        return self._views[i].tau + 2.0 * self._track.ceiling(self._reach.tilt[i])

    def bound(self, i: int, low: int, high: int) -> float:
        """A bound on the loss at the ticks low…high of a run."""
        v, envelope = self._views[i], self._envelope(i)
        total = v.tau
        for ratio, near, far in (
            (v.left, low - v.start, high - v.start),
            (v.right, v.stop - high, v.stop - low),
        ):
            # The ratio is monotone along the run, so it is largest at one end of the interval.
            ignorant = math.log(max(v.orbit.after(near, ratio), v.orbit.after(far, ratio)))
            total += max(self._track.within(v.tilts, far), ignorant + envelope.beyond(near))
        return total

    def loss(self, i: int, tick: int, enough: float) -> float:
        """The loss at one tick; or, where it cannot be above what is enough, some bound that is not either."""
        v, envelope, track = self._views[i], self._envelope(i), self._track
        left, right = (
            _Side(v, track, envelope, ratio, own)
            for ratio, own in ((v.left, tick - v.start), (v.right, v.stop - tick))
        )
        for side, other, step in ((left, right, -1), (right, left, 1)):
            for beyond in self._beyond(v.k, step):
                if side.bound <= side.best + TOLERANCE or v.tau + side.bound + other.bound <= enough:
                    break
                side.look(beyond)
            else:
                side.bound = side.best
        return v.tau + left.bound + right.bound

    def _beyond(self, k: int, step: int) -> Iterator[Matrix]:
        """The maps of the ticks beyond a run on one side, one by one."""
        edges, tilts = self._runs.edges, self._runs.tilts
        k += step
        while 0 <= k < len(tilts):
            here = self._track.tick(tilts[k])
            for _ in range(edges[k + 1] - edges[k]):
                yield here
            k += step
        while self._endless:
            yield self._track.tick((0, 0))

    def surroundings(self, i: int) -> tuple[tuple[int, int], ...]:
        """The run and all it can feel: lengths and tilts of the runs in reach, cut where the reach ends.

        Empty if there are too many to be worth comparing.
        """
        edges, tilts, v, track = self._runs.edges, self._runs.tilts, self._views[i], self._track
        low, high = v.start - track.reach, v.stop + 1 + track.reach
        inside = self._runs.covering(low, high - 1)
        if len(inside) > _NEIGHBOURS:
            return ()
        shape = [(min(edges[k + 1], high) - max(edges[k], low), tilts[k][track.state]) for k in inside]
        # The place of the run among them, and what is missing where the timeline ends.
        return ((v.start - max(edges[0], low), min(edges[-1], high) - v.stop), *shape)
