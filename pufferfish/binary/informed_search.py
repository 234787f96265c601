"""The largest loss to the informed adversary on a timeline with q+r < 1, by branch and bound over ticks.

A tick's loss is τ + (the largest V on the left) + (the largest V on the right), where V is a side's log-ratio given the
most informative known state (docs/theory.md, Theorem 4). Each V is at least the prior adversary's log-ratio, which
`prior_search` computes exactly, and exceeds it by at most the envelope (Lemma 5). These bounds discard most runs. The
intervals of the other runs are bounded in constant time, because known states within the tick's run have a closed
form, and are bisected; the exact loss is computed only for single ticks that remain.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple, TypeVar

from hushmq.pufferfish.binary.directed_chain import DirectedChain
from hushmq.pufferfish.binary.known_envelope import NEGLIGIBLE, Envelope
from hushmq.pufferfish.binary.known_instant import TOLERANCE, largest_known_log_ratio
from hushmq.pufferfish.binary.prior_search import boundary_ratios, largest_in_run
from hushmq.pufferfish.mobius.ratio_orbit import LARGEST_TILT, MobiusMap, Orbit
from hushmq.pufferfish.timeline.entry import LossAtTick
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_nats

_Number = TypeVar("_Number", int, float)

# Runs with more neighbours within the forgetting time are not compared with each other.
_MAX_NEIGHBOURS = 32

_ENDLESS = 1 << 62


class _Run(NamedTuple):
    """A run: its ticks, its tilts, and the prior adversary's ratios of all ticks to its left and to its right."""

    k: int
    start: int
    stop: int
    tau: float
    tilts: tuple[int, int]
    orbit: Orbit
    left: float
    right: float


def largest_informed_loss(
    runs: TiltRuns,
    chain: DirectedChain,
    window: range,
    *,
    first: int,
    last: int,
    endless: bool,
    best: LossAtTick,
) -> LossAtTick:
    """The larger of `best` and the largest loss at the ticks first…last, all in runs of the window, with its tick.

    If `endless`, the stream continues beyond the runs on both sides, and states there may be known.
    """
    nearby = runs.runs_touching(
        runs.edges[window.start] - chain.forgetting_time, runs.edges[window.stop] + chain.forgetting_time
    )
    inside = range(window.start - nearby.start, window.stop - nearby.start)
    losses = _RunLosses(runs, chain, nearby, endless)
    loss, tick = best
    # Minus the bound, the stage of refinement that found it, the run, its first and last tick.
    nodes = [
        (
            -losses.endless_bound(i, coarse=True),
            0,
            i,
            max(first, losses.runs[i].start),
            min(last, losses.runs[i].stop),
        )
        for i in inside
    ]
    heapq.heapify(nodes)
    seen: set[tuple[tuple[int, int], ...]] = set()
    while nodes and -nodes[0][0] > loss + TOLERANCE:
        negative, stage, i, low, high = heapq.heappop(nodes)
        middle = (low + high) // 2
        parts = [(low, high)]
        if stage == 0:
            bound = losses.endless_bound(i)
        elif stage == 1:
            whole = (low, high) == (losses.runs[i].start, losses.runs[i].stop)
            neighbourhood = losses.neighbourhood(i) if whole else None
            if neighbourhood in seen:
                continue  # a run with the same neighbourhood has the same losses
            if neighbourhood:
                seen.add(neighbourhood)
            # Raise the lower bound with the tick where the prior adversary's loss is largest.
            bound, at = losses.prior(i)
            if low <= at <= high:
                here = losses.loss(i, at, loss)
                loss, tick = (here, at) if here > loss else (loss, tick)
            bound += losses.largest_known_gain if -negative > loss + TOLERANCE else math.inf
        elif stage == 2:
            bound = losses.bound(i, low, high)
        elif low == high:
            here = losses.loss(i, low, loss)
            loss, tick = (here, low) if here > loss else (loss, tick)
            continue
        else:
            bound, parts = -negative, [(low, middle), (middle + 1, high)]
        for a, b in parts:
            here = min(-negative, bound if stage <= 2 else losses.bound(i, a, b))
            if here > loss + TOLERANCE:
                heapq.heappush(nodes, (-here, stage + 1, i, a, b))
    return loss, tick


def sliding_maximum(edges: list[int], forgetting_time: int, values: list[_Number]) -> list[_Number]:
    """For each run, the largest value among the runs with a tick within `forgetting_time` of one of its ticks."""
    found: list[_Number] = []
    falling: deque[int] = deque()  # indices of runs in the window with falling values
    ahead = 0
    for k in range(len(values)):
        while ahead < len(values) and edges[ahead] < edges[k + 1] + forgetting_time:
            while falling and values[falling[-1]] <= values[ahead]:
                falling.pop()
            falling.append(ahead)
            ahead += 1
        while edges[falling[0] + 1] <= edges[k] - forgetting_time:
            falling.popleft()
        found.append(values[falling[0]])
    return found


class _SideSearch:
    """One side of a tick: the largest V found so far, and an upper bound on every V."""

    __slots__ = ("_beyond", "_chain", "_distance", "_prior", "_through", "best", "bound")

    def __init__(
        self, run: _Run, chain: DirectedChain, envelope: Envelope | None, ratio: float, inside_run: int
    ) -> None:
        """Starts with the `inside_run` instants of the tick's run on this side, and with no known state."""
        self._chain = chain
        self._beyond = envelope.beyond if envelope else lambda _: NEGLIGIBLE
        self._prior = math.log(run.orbit.advance(inside_run, ratio))
        self._through, self._distance = run.orbit.map_of(inside_run), inside_run
        self.best = max(chain.largest_known(run.tilts, inside_run), self._prior)
        self.bound = max(self.best, self._prior + self._beyond(inside_run))

    def extend(self, tick: MobiusMap, ticks: int, threshold: float) -> bool:
        """Evaluates the next `ticks` instants; False once the bound is at most the largest V found or the threshold."""
        untilted, beyond = self._chain.untilted, self._beyond
        through, distance, prior, best = self._through, self._distance, self._prior, self.best
        for _ in range(ticks):
            if self.bound <= max(best + TOLERANCE, threshold):
                break
            through, distance = through.compose(tick), distance + 1
            best = max(best, largest_known_log_ratio(through, untilted, distance))
            self.bound = max(best, prior + beyond(distance))
        else:
            self._through, self._distance, self.best = through, distance, best
            return True
        self.best = best
        return False


class _RunLosses:
    """Bounds and losses at the ticks of some runs; expensive bounds are computed on first use."""

    def __init__(self, runs: TiltRuns, chain: DirectedChain, nearby: range, endless: bool) -> None:
        self._timeline, self._chain, self._endless = runs, chain, endless
        self._edges = edges = runs.edges[nearby.start : nearby.stop + 1]
        tilts = runs.tilts[nearby.start : nearby.stop]
        lefts, rights = (
            boundary_ratios(runs, chain, nearby),
            boundary_ratios(runs, chain, nearby, backwards=True),
        )
        self.runs = [
            _Run(
                k,
                edges[i],
                edges[i + 1] - 1,
                to_nats(tilts[i][chain.state]),
                tilts[i],
                chain.orbit(tilts[i]),
                *sides,
            )
            for i, (k, *sides) in enumerate(zip(nearby, lefts, rights, strict=True))
        ]
        self._tilts = sliding_maximum(edges, chain.forgetting_time, [tilt[chain.state] for tilt in tilts])

    def endless_bound(self, i: int, *, coarse: bool = False) -> float:
        """Upper bound on the loss in a run: that of an endless run of the largest tilt within the forgetting time.

        `coarse` rounds that tilt up to five significant bits, so that few bounds are computed.
        """
        tilt = self._tilts[i]
        if coarse:
            rest = max(0, tilt.bit_length() - 5)
            tilt = -(-tilt >> rest) << rest
        return self.runs[i].tau + 2.0 * self._chain.endless_side(tilt)

    def prior(self, i: int) -> tuple[float, int]:
        """The largest loss in a run to the prior adversary, and its tick."""
        run = self.runs[i]
        loss, place = largest_in_run(run.orbit, run.stop - run.start, run.left, run.right)
        return run.tau + loss, run.start + place

    @cached_property
    def largest_known_gain(self) -> float:
        """Upper bound on what known states on both sides add to a loss."""
        return 2.0 * self._chain.envelope(1.0, max(self._largest_xi)).beyond(0)

    @cached_property
    def _largest_xi(self) -> list[float]:
        """The largest ξ = m·C in each run: C is largest where it enters the run or at the fixed point."""
        return [
            math.exp(min(run.tau, LARGEST_TILT)) * max(run.left, run.right, run.orbit.fixed_point)
            for run in self.runs
        ]

    @cached_property
    def _ranges(self) -> list[tuple[float, float]]:
        """The range of ξ within the forgetting time of each run; outside the timeline ξ is 1."""
        forgetting_time, edges = self._chain.forgetting_time, self._edges
        lows = [
            -math.exp(min(run.tau, LARGEST_TILT)) * min(run.left, run.right, run.orbit.fixed_point)
            for run in self.runs
        ]
        first, last = self._timeline.edges[0], self._timeline.edges[-1]
        return [
            (
                1.0 if edges[i] - forgetting_time < first or edges[i + 1] + forgetting_time > last else -low,
                high,
            )
            for i, (low, high) in enumerate(
                zip(
                    sliding_maximum(edges, forgetting_time, lows),
                    sliding_maximum(edges, forgetting_time, self._largest_xi),
                    strict=True,
                )
            )
        ]

    def _envelope(self, i: int) -> Envelope:
        return self._chain.envelope(*self._ranges[i])

    def bound(self, i: int, low: int, high: int) -> float:
        """Upper bound on the loss at the ticks low…high of a run."""
        run, envelope = self.runs[i], self._envelope(i)
        total = run.tau
        for ratio, near, far in (
            (run.left, low - run.start, high - run.start),
            (run.right, run.stop - high, run.stop - low),
        ):
            # The ratio is monotone along the run, so it is largest at one end of the interval.
            prior = math.log(max(run.orbit.advance(near, ratio), run.orbit.advance(far, ratio)))
            total += max(self._chain.largest_known(run.tilts, far), prior + envelope.beyond(near))
        return total

    def loss(self, i: int, tick: int, threshold: float) -> float:
        """The loss at one tick if it exceeds `threshold`; otherwise an upper bound on it that does not exceed it."""
        run, chain = self.runs[i], self._chain
        inside_runs = tick - run.start, run.stop - tick
        # Far from both ends of a long run, states outside it are irrelevant.
        envelope = self._envelope(i) if min(inside_runs) < chain.forgetting_time else None
        left, right = (
            _SideSearch(run, chain, envelope, ratio, inside_run)
            for ratio, inside_run in zip((run.left, run.right), inside_runs, strict=True)
        )
        for side, other, step in ((left, right, -1), (right, left, 1)):
            for beyond, ticks in self._beyond(run.k, step):
                if not side.extend(beyond, ticks, threshold - run.tau - other.bound):
                    break
            else:
                side.bound = side.best
        return run.tau + left.bound + right.bound

    def _beyond(self, k: int, step: int) -> Iterator[tuple[MobiusMap, int]]:
        """The runs beyond run k on one side: the map of one tick, and the number of ticks."""
        edges, tilts = self._timeline.edges, self._timeline.tilts
        k += step
        while 0 <= k < len(tilts):
            yield self._chain.tick(tilts[k]), edges[k + 1] - edges[k]
            k += step
        if self._endless:
            yield self._chain.tick((0, 0)), _ENDLESS

    def neighbourhood(self, i: int) -> tuple[tuple[int, int], ...]:
        """All that the losses in a run depend on: lengths and tilts of the runs within the forgetting time.

        Empty if there are more than `_MAX_NEIGHBOURS` of them.
        """
        edges, tilts, run, chain = self._timeline.edges, self._timeline.tilts, self.runs[i], self._chain
        low, high = run.start - chain.forgetting_time, run.stop + 1 + chain.forgetting_time
        inside = self._timeline.runs_touching(low, high - 1)
        if len(inside) > _MAX_NEIGHBOURS:
            return ()
        shape = [(min(edges[k + 1], high) - max(edges[k], low), tilts[k][chain.state]) for k in inside]
        # The position of the run among them, and the distances to the ends of the timeline.
        return ((run.start - max(edges[0], low), min(edges[-1], high) - run.stop), *shape)
