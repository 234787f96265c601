"""The timeline of a stationary stream of k states: a tilt for every tick, and what it lets the prior adversary infer.

Let τ_t be the tilt of tick t, and let R_t(x,y) bound log E[ℓ | X_t=x] / E[ℓ | X_t=y], where ℓ is the transcript's
likelihood as a function of the states after t. R is 0 after the last tilt, and one step from D = τ_{t+1} + R_{t+1}
proves R_t (`pairs`); L is the same for the ticks before t. The loss at tick t is at most
τ_t + max_{x,y} [L_t(x,y) + R_t(x,y)], and in a stretch of constant tilt R stays within R* + c once it is, R* being
certified for an endless one (docs/theory-k.md, Theorem 7).

So a stretch is followed tick by tick only until it is within `SETTLED` of its limit. Gaps are stretches without tilt,
whose limit is 0. Beyond the first entry and the last the loss only falls: a step never proves more than max D. Nor
does it prove more than skipping h − 1 instants and revealing the next: Σ of their tilts + the max-influence E_h (SWC),
which matters where transitions are impossible.

What a stretch makes of one side depends only on its tilt, its length and what lies just outside, so it is computed
once for all stretches that see the same, now and after a change. R is rounded up to a grid, on which it comes to rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hushmq.pufferfish.binary.binary_timeline import Entry, Price
from hushmq.pufferfish.quilt.endless_quilt import bounded_loss, even, sides_of
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix, Vector
from hushmq.pufferfish.quilt.quilt_influence import Ends
from hushmq.pufferfish.quilt.transport_step import HIGHEST, ROUNDING, Index, pairs_of
from hushmq.pufferfish.timeline.tilt_runs import Runs, nats, units

SETTLED = 2.0**-26
"""A stretch this close to its limit is taken to be at most this far above it."""

GRID = 2.0**40
"""R is rounded up to a multiple of 1/GRID."""

SHORT = 16
"""Ticks of a stretch that are followed before its limit is worth computing."""

LONG = 10_000
"""A stretch this long is held at its limit as soon as R is below, and after so many ticks wherever it then is.

Both are bounds for any chain; for one that has come to rest by then the first changes no maximum, and the second
does not happen.
"""

QUILTS = 8
"""How many instants away a quilt may be that reaches across stretches."""

LEFT, RIGHT = 0, 1

_Key = tuple[int, int, int, tuple[bytes, tuple[int, ...]]]
"""All that decides what becomes of one side of a stretch: which side, its tilt, its length, what lies outside."""

_Limit = tuple[Vector, Index]
"""A certified R of an endless stretch, and for each pair the distance of the quilt that proves it; 1 for a plan."""


@dataclass(frozen=True, eq=False)
class _Outside:
    """What a tick sees on one side: R, and the tilts of the nearest ticks there, nearest first."""

    R: Vector
    tilts: tuple[int, ...] = (0,) * (QUILTS - 1)

    def key(self) -> tuple[bytes, tuple[int, ...]]:
        """The same for the same view."""
        return self.R.tobytes(), self.tilts

    def beyond(self, tilt: int, length: int, R: Vector) -> _Outside:
        """What is seen from beyond a stretch."""
        return _Outside(R, ((tilt,) * min(length, QUILTS - 1) + self.tilts)[: QUILTS - 1])


@dataclass(frozen=True, eq=False)
class _Stretch:
    """One side of a stretch of constant tilt: row d of `near` is R at its d-th tick, its last row R from there on.

    Ticks are counted from the end where R comes in.
    """

    near: Matrix
    after: _Outside

    def at(self, ticks: Index) -> Matrix:
        """R at these ticks."""
        return np.asarray(self.near[np.minimum(ticks, len(self.near) - 1)])


class _Belief:
    """One chain of Θ: its steps in both directions, the limits of endless stretches, and the stretches seen lately."""

    def __init__(self, chain: Chain) -> None:
        if chain.initial is not None:
            raise ValueError(
                "a chain has an initial distribution; timelines are priced for stationary chains"
            )
        self._solvers = sides_of(chain)
        self._shape = even(chain.k)
        self._influences = [_influences(one) for one in (chain.reversal(), chain)]
        self._limits: dict[int, tuple[_Limit, _Limit]] = {}
        self._kept: dict[_Key, _Stretch] = {}
        self._last: dict[_Key, _Stretch] = {}

    def keep(self) -> None:
        """Keep the stretches of the history priced last, and no others but those of the next."""
        self._kept = self._last

    def worst(self, runs: Runs) -> tuple[float, int | None]:
        """The largest loss at any tick, and the tick."""
        seen: dict[_Key, _Stretch] = {}
        pieces = [
            (tilt, end - first)
            for first, end, (tilt, _) in zip(runs.edges, runs.edges[1:], runs.tilts, strict=False)
        ]
        lefts = self._side(LEFT, pieces, seen)
        rights = self._side(RIGHT, pieces[::-1], seen)[::-1]
        self._last = seen
        loss, worst = 0.0, None
        for first, (tilt, n), left, right in zip(runs.edges, pieces, lefts, rights, strict=False):
            # Between these ticks both sides stay what they are.
            ticks = np.union1d(np.arange(min(n, len(left.near))), np.arange(max(0, n - len(right.near)), n))
            losses = nats(tilt) + np.max(left.at(ticks) + right.at(n - 1 - ticks), axis=1)
            best = int(np.argmax(losses))
            if losses[best] > loss:
                loss, worst = float(losses[best]), first + int(ticks[best])
        return loss * (1 + 1e-15), worst

    def _side(self, side: int, pieces: list[tuple[int, int]], seen: dict[_Key, _Stretch]) -> list[_Stretch]:
        """One side of every stretch, from the outermost inwards."""
        outside = _Outside(np.zeros(self._solvers[side].step.pairs))
        found = []
        for tilt, length in pieces:
            key = (side, tilt, length, outside.key())
            stretch = seen.get(key) or self._kept.get(key) or self._last.get(key)
            seen[key] = stretch or self._follow(side, tilt, length, outside)
            found.append(seen[key])
            outside = seen[key].after
        return found

    def _follow(self, side: int, tilt: int, length: int, before: _Outside) -> _Stretch:
        """One side of a stretch, tick by tick until its limit takes over."""
        near: list[Vector] = []
        now = before
        for tick in range(length):
            R = now.R
            if tilt == 0 or length >= LONG or tick >= SHORT:
                limit, hops = self._limit(tilt)[side]
                # The quilt of such a pair lies within the stretch or just behind it, whatever R is.
                R = np.where((hops > 1) & (hops <= tick + 1), np.minimum(R, limit), R)
                held = limit + self._above(R - limit, length, tick)
                if np.all(held >= R) and hops.max() <= tick + 1:
                    near.append(held)
                    return _Stretch(np.array(near), before.beyond(tilt, length, held))
            near.append(R)
            now = self._step(side, tilt, now.beyond(tilt, 1, R))
        return _Stretch(np.array(near), now)

    def _step(self, side: int, tilt: int, outside: _Outside) -> _Outside:
        """One tick further, which `outside` counts among its tilts but not yet in its R."""
        solver, R = self._solvers[side], outside.R
        D = nats(tilt) * self._shape + solver.square(R)
        skipped = np.array([nats(sum(outside.tilts[:h])) for h in range(QUILTS)])
        quilts = np.min(skipped[:, None] + self._influences[side], axis=0)
        bound = np.minimum(solver.step.least(D, R), quilts)
        return _Outside(np.ceil(bound * GRID) / GRID, outside.tilts)

    @staticmethod
    def _above(excess: Vector, length: int, tick: int) -> float:
        """How far above its limit a stretch may be held from now on; −∞: not yet."""
        if excess.max() > SETTLED:
            return float(excess.max()) if tick >= LONG else -np.inf
        if excess.min() < -SETTLED and length < LONG:
            return -np.inf
        return 0.0 if excess.max() <= 0 else SETTLED

    def _limit(self, tilt: int) -> tuple[_Limit, _Limit]:
        """What is certified for endless stretches, on the left and on the right."""
        if tilt not in self._limits:
            if tilt == 0:
                R = [np.zeros(solver.step.pairs) for solver in self._solvers]
            else:
                # No step exceeds the ceiling, whatever comes in, and with such a tilt it is all but reached.
                R = [solver.step.ceiling + ROUNDING for solver in self._solvers]
            left, right = ((one, np.ones(one.shape, dtype=np.intp)) for one in R)
            if 0.0 < nats(tilt) < HIGHEST / 3:
                bound = bounded_loss(self._solvers, nats(tilt) * self._shape)
                left, right = (bound.left.R, bound.left.hops), (bound.right.R, bound.right.hops)
            self._limits[tilt] = (left, right)
        return self._limits[tilt]


def _influences(chain: Chain) -> Matrix:
    """Max-influences (SWC Definition 4.1) of the instants 1…QUILTS steps away, one row each, over ordered pairs."""
    k, ends = chain.k, Ends(chain)
    # A power of a chain, all terms positive, is off by less than h·(k+2) roundings, entry by entry.
    unit = float(np.finfo(np.float64).eps)
    rows = [
        np.maximum(ends.right(h)[pairs_of(k)], 0.0) + 2 * h * (k + 2) * unit for h in range(1, QUILTS + 1)
    ]
    return np.array(rows)


class TimelineK:
    """The entries of one stream and audience, priced as they come, for the worst chain of a finite Θ.

    The span is where the stream exists, first and last tick; without one it never ends on either side.
    """

    def __init__(
        self, chains: Iterable[Chain], entries: Iterable[Entry] = (), *, span: tuple[int, int] | None = None
    ) -> None:
        """Price the entries; every chain must be stationary, irreducible and aperiodic."""
        if span is not None and span[0] > span[1]:
            raise ValueError(f"span is {span}; it must be the first tick and the last, in this order")
        self._span = span
        self._beliefs = [_Belief(chain) for chain in chains]
        if not self._beliefs:
            raise ValueError("chains is empty; give at least one chain")
        self._pieces = [self._piece(entry) for entry in entries]
        self._price = self._priced(self._pieces)
        self._keep()

    def add(self, entry: Entry) -> None:
        """Add an entry to the history."""
        pieces = [*self._pieces, self._piece(entry)]
        self._pieces, self._price = pieces, self._priced(pieces)
        self._keep()

    def price(self) -> Price:
        """What the history lets anyone infer."""
        return self._price

    def price_with(self, entry: Entry) -> Price:
        """The price if the entry were added; nothing changes."""
        return self._priced([*self._pieces, self._piece(entry)])

    def _piece(self, entry: Entry) -> tuple[int, int, int, int]:
        if self._span is not None and not (self._span[0] <= entry.first and entry.last <= self._span[1]):
            raise ValueError(
                f"the entry is for ticks {entry.first} to {entry.last}; "
                f"the stream has only ticks {self._span[0]} to {self._span[1]}"
            )
        return entry.first, entry.last, units(max(entry.tau0, entry.tau1)), 0

    def _priced(self, pieces: list[tuple[int, int, int, int]]) -> Price:
        runs = Runs(pieces)
        return Price(*max((belief.worst(runs) for belief in self._beliefs), key=lambda worst: worst[0]))

    def _keep(self) -> None:
        for belief in self._beliefs:
            belief.keep()


def price(entries: Iterable[Entry], chains: Iterable[Chain], *, span: tuple[int, int] | None = None) -> Price:
    """The price of a history: the largest loss at any tick, for the worst chain."""
    return TimelineK(chains, entries, span=span).price()
