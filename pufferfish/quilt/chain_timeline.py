"""The timeline of a stationary k-state stream for a finite Θ: the loss of its tilts to the prior adversary.

Let τ_t be the tilt of tick t, and let R_t(x,y) bound log E[ℓ | X_t=x] / E[ℓ | X_t=y], where ℓ is the transcript's
likelihood as a function of the states after t. R is 0 after the last tilt, and one transport step from
D = τ_{t+1} + R_{t+1} proves R_t (`transport_step`); L is the same for the ticks before t. The loss at tick t is at most
τ_t + max_{x,y} [L_t(x,y) + R_t(x,y)]. If R* is certified for an endless run of constant tilt and R ≤ R* + c at one tick
of a run of that tilt, the same holds at its remaining ticks (docs/theory-k.md, Theorem 7).

The recursion therefore visits the ticks of a run only until R is within `SETTLED` of R*. Gaps are runs of tilt 0 with
R* = 0. Before the first entry and after the last the loss only falls, because a step never proves more than max D. A
step also proves no more than skipping h − 1 instants and revealing the next one: the sum of their tilts plus the
max-influence E_h (SWC Definition 4.1), which matters where transitions are impossible.

The bounds along one side of a run depend only on its tilt, its length and the boundary, so they are cached under these.
R is rounded up to a grid so that the recursion reaches a fixed point and boundaries compare equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hushmq.pufferfish.quilt.endless_quilt import certify_tilt, side_solvers, uniform_tilt
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix, Vector
from hushmq.pufferfish.quilt.quilt_influence import PowerRatios
from hushmq.pufferfish.quilt.transport_step import HIGHEST, ROUNDING, Index, pairs_of
from hushmq.pufferfish.timeline.entry import Entry, Price
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_nats, to_units

SETTLED = 2.0**-26
"""Once R is within this distance of R*, the remaining ticks of the run are bounded by R* plus this distance."""

GRID = 2.0**40
"""R is rounded up to a multiple of 1/GRID."""

SHORT_RUN = 16
"""Ticks of a run that are visited before R* is computed."""

LONG_RUN = 10_000
"""A run of this length is bounded by R* as soon as R is below it, and after this many ticks by the R reached then.

Both are upper bounds for every chain. For a chain that has converged by then the first changes no maximum, and the
second does not occur.
"""

FARTHEST_QUILT = 8
"""The largest distance, in instants, of a quilt node that is tried at every tick."""

LEFT, RIGHT = 0, 1

_RunKey = tuple[int, int, int, tuple[bytes, tuple[int, ...]]]
"""All that the bounds along a run depend on: the side, its tilt, its length and its boundary."""

_EndlessBound = tuple[Vector, Index]
"""A certified R of an endless run, and for each pair the distance of the quilt that proves it (1: a transport plan)."""


@dataclass(frozen=True, eq=False)
class _Boundary:
    """What lies on one side of a tick: R, and the tilts of the nearest ticks there, nearest first."""

    R: Vector
    tilts: tuple[int, ...] = (0,) * (FARTHEST_QUILT - 1)

    def key(self) -> tuple[bytes, tuple[int, ...]]:
        """A hashable key, equal for equal boundaries."""
        return self.R.tobytes(), self.tilts

    def behind(self, tilt: int, length: int, R: Vector) -> _Boundary:
        """The boundary behind a further run of `length` ticks of this tilt."""
        return _Boundary(R, ((tilt,) * min(length, FARTHEST_QUILT - 1) + self.tilts)[: FARTHEST_QUILT - 1])


@dataclass(frozen=True, eq=False)
class _ChainRunBounds:
    """The bounds along one side of a run: row d of `by_tick` is R at its d-th tick, the last row R at all further ones.

    Ticks are counted from the end where the recursion enters the run.
    """

    by_tick: Matrix
    boundary: _Boundary

    def at(self, ticks: Index) -> Matrix:
        """R at the given ticks."""
        return np.asarray(self.by_tick[np.minimum(ticks, len(self.by_tick) - 1)])


class _ChainBounds:
    """The bounds for one chain of Θ: transport steps in both directions of time, and cached bounds along runs."""

    def __init__(self, chain: Chain) -> None:
        if chain.initial is not None:
            raise ValueError(
                "a chain has an initial distribution; timelines are priced for stationary chains"
            )
        self._solvers = side_solvers(chain)
        self._shape = uniform_tilt(chain.k)
        self._influences = [_influences(one) for one in (chain.reversal(), chain)]
        self._endless_bounds: dict[int, tuple[_EndlessBound, _EndlessBound]] = {}
        self._cached: dict[_RunKey, _ChainRunBounds] = {}
        self._last: dict[_RunKey, _ChainRunBounds] = {}

    def keep_cache(self) -> None:
        """Retains the cached bounds of the history priced last and discards older ones."""
        self._cached = self._last

    def largest_loss(self, runs: TiltRuns) -> tuple[float, int | None]:
        """The largest loss at any tick, and the tick."""
        computed: dict[_RunKey, _ChainRunBounds] = {}
        pieces = [
            (tilt, end - first)
            for first, end, (tilt, _) in zip(runs.edges, runs.edges[1:], runs.tilts, strict=False)
        ]
        lefts = self._along_side(LEFT, pieces, computed)
        rights = self._along_side(RIGHT, pieces[::-1], computed)[::-1]
        self._last = computed
        loss, largest_loss = 0.0, None
        for first, (tilt, n), left, right in zip(runs.edges, pieces, lefts, rights, strict=False):
            # Between these ticks the bounds of both sides are constant.
            ticks = np.union1d(
                np.arange(min(n, len(left.by_tick))), np.arange(max(0, n - len(right.by_tick)), n)
            )
            losses = to_nats(tilt) + np.max(left.at(ticks) + right.at(n - 1 - ticks), axis=1)
            best = int(np.argmax(losses))
            if losses[best] > loss:
                loss, largest_loss = float(losses[best]), first + int(ticks[best])
        return loss * (1 + 1e-15), largest_loss

    def _along_side(
        self, side: int, pieces: list[tuple[int, int]], computed: dict[_RunKey, _ChainRunBounds]
    ) -> list[_ChainRunBounds]:
        """The bounds along one side of every run, from the outermost run inwards."""
        boundary = _Boundary(np.zeros(self._solvers[side].step.pairs))
        found = []
        for tilt, length in pieces:
            key = (side, tilt, length, boundary.key())
            run = computed.get(key) or self._cached.get(key) or self._last.get(key)
            computed[key] = run or self._bounds_along(side, tilt, length, boundary)
            found.append(computed[key])
            boundary = computed[key].boundary
        return found

    def _bounds_along(self, side: int, tilt: int, length: int, before: _Boundary) -> _ChainRunBounds:
        """The bounds along one side of a run: tick by tick until the endless bound covers the rest."""
        by_tick: list[Vector] = []
        now = before
        for tick in range(length):
            R = now.R
            if tilt == 0 or length >= LONG_RUN or tick >= SHORT_RUN:
                limit, hops = self._endless_bound(tilt)[side]
                # The quilt node of such a pair lies within the run or at its boundary, so its bound does not use R.
                R = np.where((hops > 1) & (hops <= tick + 1), np.minimum(R, limit), R)
                held = limit + self._margin(R - limit, length, tick)
                if np.all(held >= R) and hops.max() <= tick + 1:
                    by_tick.append(held)
                    return _ChainRunBounds(np.array(by_tick), before.behind(tilt, length, held))
            by_tick.append(R)
            now = self._step(side, tilt, now.behind(tilt, 1, R))
        return _ChainRunBounds(np.array(by_tick), now)

    def _step(self, side: int, tilt: int, boundary: _Boundary) -> _Boundary:
        """Advances R by one tick, whose tilt `boundary` already lists."""
        solver, R = self._solvers[side], boundary.R
        D = to_nats(tilt) * self._shape + solver.as_matrix(R)
        skipped = np.array([to_nats(sum(boundary.tilts[:h])) for h in range(FARTHEST_QUILT)])
        quilts = np.min(skipped[:, None] + self._influences[side], axis=0)
        bound = np.minimum(solver.step.least_bound(D, R), quilts)
        return _Boundary(np.ceil(bound * GRID) / GRID, boundary.tilts)

    @staticmethod
    def _margin(excess: Vector, length: int, tick: int) -> float:
        """The margin above R* that bounds the remaining ticks of the run; −∞ if R has not converged yet."""
        if excess.max() > SETTLED:
            return float(excess.max()) if tick >= LONG_RUN else -np.inf
        if excess.min() < -SETTLED and length < LONG_RUN:
            return -np.inf
        return 0.0 if excess.max() <= 0 else SETTLED

    def _endless_bound(self, tilt: int) -> tuple[_EndlessBound, _EndlessBound]:
        """The certified bounds of endless runs of this tilt, on the left and on the right."""
        if tilt not in self._endless_bounds:
            if tilt == 0:
                R = [np.zeros(solver.step.pairs) for solver in self._solvers]
            else:
                # The ceiling bounds every step, and is nearly attained by so large a tilt.
                R = [solver.step.ceiling + ROUNDING for solver in self._solvers]
            left, right = ((one, np.ones(one.shape, dtype=np.intp)) for one in R)
            if 0.0 < to_nats(tilt) < HIGHEST / 3:
                bound = certify_tilt(self._solvers, to_nats(tilt) * self._shape)
                left, right = (bound.left.R, bound.left.hops), (bound.right.R, bound.right.hops)
            self._endless_bounds[tilt] = (left, right)
        return self._endless_bounds[tilt]


def _influences(chain: Chain) -> Matrix:
    """Max-influences (SWC Definition 4.1) of the instants 1…QUILTS steps away, one row each, over ordered pairs."""
    k, ends = chain.k, PowerRatios(chain)
    # Sums of non-negative terms: the relative error of an entry of P^h is below h·(k+2) unit roundoffs.
    unit = float(np.finfo(np.float64).eps)
    rows = [
        np.maximum(ends.right(h)[pairs_of(k)], 0.0) + 2 * h * (k + 2) * unit
        for h in range(1, FARTHEST_QUILT + 1)
    ]
    return np.array(rows)


class ChainTimeline:
    """The entries of one stream and audience, priced incrementally for the worst chain of a finite Θ.

    `span` is the first and the last tick of the stream; without it the stream is endless in both directions.
    """

    def __init__(
        self, chains: Iterable[Chain], entries: Iterable[Entry] = (), *, span: tuple[int, int] | None = None
    ) -> None:
        """Prices the entries; ValueError unless every chain is stationary, irreducible and aperiodic."""
        if span is not None and span[0] > span[1]:
            raise ValueError(f"span is {span}; it must be the first tick and the last, in this order")
        self._span = span
        self._bounds = [_ChainBounds(chain) for chain in chains]
        if not self._bounds:
            raise ValueError("chains is empty; give at least one chain")
        self._pieces = [self._piece(entry) for entry in entries]
        self._price = self._priced(self._pieces)
        self._keep_cache()

    def add(self, entry: Entry) -> None:
        """Adds an entry to the history; ValueError if it lies outside the span."""
        pieces = [*self._pieces, self._piece(entry)]
        self._pieces, self._price = pieces, self._priced(pieces)
        self._keep_cache()

    def price(self) -> Price:
        """The price of the history."""
        return self._price

    def price_with(self, entry: Entry) -> Price:
        """The price if the entry were added; the timeline does not change."""
        return self._priced([*self._pieces, self._piece(entry)])

    def _piece(self, entry: Entry) -> tuple[int, int, int, int]:
        if self._span is not None and not (self._span[0] <= entry.first and entry.last <= self._span[1]):
            raise ValueError(
                f"the entry is for ticks {entry.first} to {entry.last}; "
                f"the stream has only ticks {self._span[0]} to {self._span[1]}"
            )
        return entry.first, entry.last, to_units(max(entry.tau0, entry.tau1)), 0

    def _priced(self, pieces: list[tuple[int, int, int, int]]) -> Price:
        runs = TiltRuns(pieces)
        return Price(
            *max(
                (bounds.largest_loss(runs) for bounds in self._bounds),
                key=lambda largest_loss: largest_loss[0],
            )
        )

    def _keep_cache(self) -> None:
        for bounds in self._bounds:
            bounds.keep_cache()


def price(entries: Iterable[Entry], chains: Iterable[Chain], *, span: tuple[int, int] | None = None) -> Price:
    """The price of a history: the largest loss at any tick for the worst chain."""
    return ChainTimeline(chains, entries, span=span).price()
