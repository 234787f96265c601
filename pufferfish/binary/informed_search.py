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
from functools import cached_property
from typing import NamedTuple, TypeVar

from hushmq.pufferfish.binary.directed_chain import Track
from hushmq.pufferfish.binary.known_envelope import NOTHING, Envelope
from hushmq.pufferfish.binary.known_instant import TOLERANCE, known_at
from hushmq.pufferfish.binary.prior_search import Best, largest, ratios
from hushmq.pufferfish.binary.ratio_orbit import LARGEST, Matrix, Orbit
from hushmq.pufferfish.timeline.tilt_runs import Runs, nats

_Number = TypeVar("_Number", int, float)

# Runs with more neighbours than this in reach are not compared with each other.
_NEIGHBOURS = 32

_FOREVER = 1 << 62


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
    inside = range(window.start - around.start, window.stop - around.start)
    look = _Search(runs, track, around, endless)
    loss, tick = best
    # Minus the bound, the number of looks that found it, the run, its first and last tick.
    nodes = [
        (-look.ceiling(i, coarse=True), 0, i, max(first, look.runs[i].start), min(last, look.runs[i].stop))
        for i in inside
    ]
    heapq.heapify(nodes)
    seen: set[tuple[tuple[int, int], ...]] = set()
    while nodes and -nodes[0][0] > loss + TOLERANCE:
        negative, looks, i, low, high = heapq.heappop(nodes)
        middle = (low + high) // 2
        parts = [(low, high)]
        if looks == 0:
            bound = look.ceiling(i)
        elif looks == 1:
            whole = (low, high) == (look.runs[i].start, look.runs[i].stop)
            surroundings = look.surroundings(i) if whole else None
            if surroundings in seen:
                continue  # a run with the same surroundings has been looked at already
            if surroundings:
                seen.add(surroundings)
            # A loss to beat: at the tick where nothing known tells most.
            bound, at = look.ignorant(i)
            if low <= at <= high:
                here = look.loss(i, at, loss)
                loss, tick = (here, at) if here > loss else (loss, tick)
            bound += look.most if -negative > loss + TOLERANCE else math.inf
        elif looks == 2:
            bound = look.bound(i, low, high)
        elif low == high:
            here = look.loss(i, low, loss)
            loss, tick = (here, low) if here > loss else (loss, tick)
            continue
        else:
            bound, parts = -negative, [(low, middle), (middle + 1, high)]
        for a, b in parts:
            here = min(-negative, bound if looks <= 2 else look.bound(i, a, b))
            if here > loss + TOLERANCE:
                heapq.heappush(nodes, (-here, looks + 1, i, a, b))
    return loss, tick


def _largest_in_reach(edges: list[int], reach: int, values: list[_Number]) -> list[_Number]:
    """For each run the largest value of a run that has a tick within reach of one of its ticks."""
    found: list[_Number] = []
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

    __slots__ = ("_beyond", "_distance", "_ignorant", "_through", "_track", "best", "bound")

    def __init__(self, v: _Run, track: Track, envelope: Envelope | None, ratio: float, own: int) -> None:
        """At first those in the tick's own run, and nothing known."""
        self._track = track
        self._beyond = envelope.beyond if envelope else lambda _: NOTHING
        self._ignorant = math.log(v.orbit.after(own, ratio))
        self._through, self._distance = v.orbit.matrix(own), own
        self.best = max(track.within(v.tilts, own), self._ignorant)
        self.bound = max(self.best, self._ignorant + self._beyond(own))

    def walk(self, tick: Matrix, ticks: int, enough: float) -> bool:
        """Look at the next instants beyond; false once all that remain are bounded by the best or what is enough."""
        base, soft, beyond = self._track.base, self._track.soft, self._beyond
        through, distance, ignorant, best = self._through, self._distance, self._ignorant, self.best
        for _ in range(ticks):
            if self.bound <= max(best + TOLERANCE, enough):
                break
            through, distance = through.then(tick), distance + 1
            best = max(best, known_at(through, base, distance, soft=soft))
            self.bound = max(best, ignorant + beyond(distance))
        else:
            self._through, self._distance, self.best = through, distance, best
            return True
        self.best = best
        return False


class _Search:
    """Bounds and losses at the ticks of the runs looked at; what is dear is computed when first asked for."""

    def __init__(self, runs: Runs, track: Track, around: range, endless: bool) -> None:
        self._timeline, self._track, self._endless = runs, track, endless
        self._edges = edges = runs.edges[around.start : around.stop + 1]
        tilts = runs.tilts[around.start : around.stop]
        lefts, rights = ratios(runs, track, around), ratios(runs, track, around, backwards=True)
        self.runs = [
            _Run(
                k,
                edges[i],
                edges[i + 1] - 1,
                nats(tilts[i][track.state]),
                tilts[i],
                track.orbit(tilts[i]),
                *sides,
            )
            for i, (k, *sides) in enumerate(zip(around, lefts, rights, strict=True))
        ]
        self._tilts = _largest_in_reach(edges, track.reach, [tilt[track.state] for tilt in tilts])

    def ceiling(self, i: int, *, coarse: bool = False) -> float:
        """A bound on the loss in a run from the largest tilt in reach, coarsely rounded up if that will do."""
        tilt = self._tilts[i]
        if coarse:
            rest = max(0, tilt.bit_length() - 5)
            tilt = -(-tilt >> rest) << rest
        return self.runs[i].tau + 2.0 * self._track.ceiling(tilt)

    def ignorant(self, i: int) -> tuple[float, int]:
        """The largest loss in a run when nothing is known, and its tick."""
        v = self.runs[i]
        loss, place = largest(v.orbit, v.stop - v.start, v.left, v.right)
        return v.tau + loss, v.start + place

    @cached_property
    def most(self) -> float:
        """What known instants can add to any loss here."""
        return 2.0 * self._track.envelope(1.0, max(self._highs)).beyond(0)

    @cached_property
    def _highs(self) -> list[float]:
        """The largest ξ = m·C in each run: where C enters it or at its limit."""
        return [math.exp(min(v.tau, LARGEST)) * max(v.left, v.right, v.orbit.limit) for v in self.runs]

    @cached_property
    def _ranges(self) -> list[tuple[float, float]]:
        """The range of ξ in reach of each run; outside the timeline ξ is 1."""
        reach, edges = self._track.reach, self._edges
        lows = [-math.exp(min(v.tau, LARGEST)) * min(v.left, v.right, v.orbit.limit) for v in self.runs]
        first, last = self._timeline.edges[0], self._timeline.edges[-1]
        return [
            (1.0 if edges[i] - reach < first or edges[i + 1] + reach > last else -low, high)
            for i, (low, high) in enumerate(
                zip(
                    _largest_in_reach(edges, reach, lows),
                    _largest_in_reach(edges, reach, self._highs),
                    strict=True,
                )
            )
        ]

    def _envelope(self, i: int) -> Envelope:
        return self._track.envelope(*self._ranges[i])

    def bound(self, i: int, low: int, high: int) -> float:
        """A bound on the loss at the ticks low…high of a run."""
        v, envelope = self.runs[i], self._envelope(i)
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
        v, track = self.runs[i], self._track
        owns = tick - v.start, v.stop - tick
        # In the middle of a long run nothing beyond it tells anything.
        envelope = self._envelope(i) if min(owns) < track.reach else None
        left, right = (
            _Side(v, track, envelope, ratio, own) for ratio, own in zip((v.left, v.right), owns, strict=True)
        )
        for side, other, step in ((left, right, -1), (right, left, 1)):
            for beyond, ticks in self._beyond(v.k, step):
                if not side.walk(beyond, ticks, enough - v.tau - other.bound):
                    break
            else:
                side.bound = side.best
        return v.tau + left.bound + right.bound

    def _beyond(self, k: int, step: int) -> Iterator[tuple[Matrix, int]]:
        """The runs beyond one on a side: the map of a tick, and how many."""
        edges, tilts = self._timeline.edges, self._timeline.tilts
        k += step
        while 0 <= k < len(tilts):
            yield self._track.tick(tilts[k]), edges[k + 1] - edges[k]
            k += step
        if self._endless:
            yield self._track.tick((0, 0)), _FOREVER

    def surroundings(self, i: int) -> tuple[tuple[int, int], ...]:
        """The run and all it can feel: lengths and tilts of the runs in reach, cut where the reach ends.

        Empty if there are too many to be worth comparing.
        """
        edges, tilts, v, track = self._timeline.edges, self._timeline.tilts, self.runs[i], self._track
        low, high = v.start - track.reach, v.stop + 1 + track.reach
        inside = self._timeline.covering(low, high - 1)
        if len(inside) > _NEIGHBOURS:
            return ()
        shape = [(min(edges[k + 1], high) - max(edges[k], low), tilts[k][track.state]) for k in inside]
        # The place of the run among them, and what is missing where the timeline ends.
        return ((v.start - max(edges[0], low), min(edges[-1], high) - v.stop), *shape)
