"""One step of the tilted quilt as a transport problem, for all ordered pairs of states (docs/theory-k.md, Lemma 2).

Let g(u) be the expected likelihood of the rest of the transcript given that the next state is u; it satisfies
`g(u) ≤ e^{D(u,v)}·g(v)` for all u, v. Let a and b be the laws of the next state given the present states x and y. The
largest `a·g / b·g` is the value of a transport problem: ship the mass a, multiplied by e^{D(u,v)} on the way from u to
v, so that no v receives more than λ·b(v). Any transport plan f proves the bound λ:

    a·g = Σ f(u,v)·g(u) ≤ Σ f(u,v)·e^{D(u,v)}·g(v) ≤ λ·(b·g).

`TransportStep.bound` therefore verifies any plan, and `TransportStep.plan` may be greedy: it fills sinks in a fixed
order of the states (the north-west corner rule), in the best of a few orders. Up to four states this is optimal;
beyond, it is within a fraction of a percent of the linear program.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.quilt.markov_chain import Matrix, Vector

Index = NDArray[np.intp]

ROUNDING = 1e-12
"""Added to every bound: exceeds the rounding errors of a step of up to a thousand states."""

HIGHEST = 300.0
"""The largest D for which plans are made, so that e^D stays in the range of doubles."""

ROUGH, FINE, TRIES = 0.02, 1e-10, 12
"""Newton's method for log λ stops at a change of ROUGH or FINE, or after TRIES iterations."""


@cache
def pairs_of(k: int) -> tuple[Index, Index]:
    """All ordered pairs x ≠ y of k states, in the order of every vector over pairs."""
    x, y = np.nonzero(~np.eye(k, dtype=bool))
    return x, y


@dataclass(frozen=True, eq=False)
class TransportPlan:
    """Transport plans of all pairs: pair n ships `mass[s, n]` from state `source[s, n]` to state `sink[s, n]`.

    `price[s, n]` is the derivative of the pair's log λ with respect to D(source, sink). `fits[n]` says whether every
    sink stays within its capacity for the λ that the plan was made for.
    """

    source: Index
    sink: Index
    mass: Matrix
    price: Matrix
    fits: NDArray[np.bool_]

    def where(self, better: NDArray[np.bool_], other: TransportPlan) -> TransportPlan:
        """The plan that takes this plan's shipments for the pairs in `better` and the other's for the rest."""
        slots = max(len(self.mass), len(other.mass))

        def pick(mine: NDArray[Any], theirs: NDArray[Any]) -> NDArray[Any]:
            padded = (np.pad(part, ((0, slots - len(part)), (0, 0))) for part in (mine, theirs))
            return np.where(better, *padded)

        return TransportPlan(
            pick(self.source, other.source),
            pick(self.sink, other.sink),
            pick(self.mass, other.mass),
            pick(self.price, other.price),
            np.where(better, self.fits, other.fits),
        )


@dataclass(frozen=True, eq=False)
class TransportStep:
    """The step of a chain: for ordered pair n = (x, y), a[n] and b[n] are the laws of the next state given x and y.

    `orders[o]` holds two orders of the states: the one in which sources are emptied and the one in which sinks are
    filled.
    """

    states: int
    a: Matrix
    b: Matrix
    orders: Index

    @classmethod
    def of(cls, P: Matrix, orders: Index) -> TransportStep:
        """The step of a chain."""
        x, y = pairs_of(len(P))
        return cls(len(P), P[x], P[y], orders)

    @property
    def pairs(self) -> int:
        """The number of ordered pairs."""
        return len(self.a)

    @cached_property
    def ceiling(self) -> Vector:
        """Upper bound on every step, for all D: log max a/b."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(self.a > 0, self.a / self.b, 0.0)
        return np.asarray(np.log(ratios.max(axis=1)), dtype=np.float64)

    def paid_pair(self, plan: TransportPlan) -> Index:
        """The index of the pair whose D each shipment pays; the number of pairs stands for the diagonal."""
        number = np.full((self.states, self.states), self.pairs)
        number[pairs_of(self.states)] = np.arange(self.pairs)
        return np.asarray(number[plan.source, plan.sink], dtype=np.intp)

    def plan(self, D: Matrix, guess: Vector, choice: Index) -> tuple[Vector, TransportPlan]:
        """Greedy plans in the orders `choice`, and for each pair the log λ at which supply equals demand.

        `guess` is a guess of log λ for each pair. The returned log λ is a Newton step from there, exact once the
        basis of the plan no longer changes.
        """
        k = self.states
        W = np.exp(D).ravel()
        rows = np.arange(self.pairs)
        excess = self.a - np.exp(guess)[:, None] * self.b
        sources, supplies = _nonzero_first(excess, self.orders[choice, 0])
        sinks, demands = _nonzero_first(-excess, self.orders[choice, 1])
        more_sources = np.sum(excess > 0, axis=1) - 1
        more_sinks = np.sum(excess < 0, axis=1) - 1
        balanced = (more_sources >= 0) & (more_sinks >= 0)

        i = np.zeros(self.pairs, dtype=np.intp)
        j = np.zeros(self.pairs, dtype=np.intp)
        u, v = sources[0], sinks[0]
        supply, demand = supplies[0], demands[0]
        worth_v = np.ones(self.pairs)
        worth_u = W[u * k + v]
        top = self.a[rows, u] * worth_u + self.a[rows, v]
        bottom = self.b[rows, u] * worth_u + self.b[rows, v]
        shipments = []
        for _ in range(max(1, int(np.max(more_sources + more_sinks)) + 1)):
            w = W[u * k + v]
            has_source, has_sink = i < more_sources, j < more_sinks
            # The last sink takes all remaining supply, so the plan is complete even if the guess was too low.
            mass = np.where(has_sink, np.minimum(supply, demand / w), supply)
            shipments.append((u, v, mass, mass * worth_u))
            supply, demand = supply - mass, demand - mass * w
            next_u = has_source & ((supply <= 0) | ~has_sink)
            next_v = has_sink & ~next_u
            i, j = i + next_u, j + next_v
            u, v = np.where(next_u, sources[i, rows], u), np.where(next_v, sinks[j, rows], v)
            supply = np.where(next_u, supplies[i, rows], supply)
            demand = np.where(next_v, demands[j, rows], demand)
            w = W[u * k + v]
            worth_u = np.where(next_u, w * worth_v, worth_u)
            worth_v = np.where(next_v, worth_u / w, worth_v)
            state = np.where(next_u, u, v)
            worth = np.where(next_u, worth_u, np.where(next_v, worth_v, 0.0))
            top += self.a[rows, state] * worth
            bottom += self.b[rows, state] * worth
        source, sink, mass, value = (np.array(column) for column in zip(*shipments, strict=True))
        # If a ≤ λ·b everywhere, or the reverse, only constant g matters, and its ratio is 1.
        top, bottom = np.where(balanced, top, 1.0), np.where(balanced, bottom, 1.0)
        fits = np.where(balanced, demand >= 0, more_sources < 0)
        return np.log(top / bottom), TransportPlan(source, sink, mass, value / top, fits)

    def solve_plan(
        self, D: Matrix, start: Vector, choice: Index, tolerance: float = ROUGH
    ) -> tuple[Vector, TransportPlan]:
        """The least log λ for which the plan in the chosen order fits, by safeguarded Newton's method."""
        # At the ceiling nothing is shipped, so the plan has no basis.
        low, high = np.full(self.pairs, -1.0), self.ceiling - 1e-9
        guess = np.minimum(start, high)
        for _ in range(TRIES):
            moved, plan = self.plan(D, guess, choice)
            low, high = np.where(plan.fits, low, guess), np.where(plan.fits, guess, high)
            inside = (moved > low - 1e-7) & (moved < high + 1e-7)
            moved = np.where(inside, moved, (low + high) / 2)
            if np.abs(moved - guess).max() < tolerance:
                break
            guess = moved
        return moved, plan

    def least_bound(self, D: Matrix, start: Vector) -> Vector:
        """The least log λ that a plan in any of the orders proves; `start` is the initial guess."""
        # The ratio of two means of g is at most max g / min g.
        known = np.minimum(self.ceiling + ROUNDING, D.max())
        if not 0.0 < D.max() <= HIGHEST:
            return np.asarray(known, dtype=np.float64)
        count = len(self.orders)
        all_orders = TransportStep(
            self.states, np.tile(self.a, (count, 1)), np.tile(self.b, (count, 1)), self.orders
        )
        choice = np.repeat(np.arange(count), self.pairs)
        moved, _ = all_orders.solve_plan(D, np.tile(start, count), choice, FINE)
        _, plan = all_orders.plan(D, moved + 2 * ROUNDING, choice)
        bounds = all_orders.bound(D, plan).reshape(count, self.pairs)
        return np.asarray(np.clip(bounds.min(axis=0), 0.0, known), dtype=np.float64)

    def bound(self, D: Matrix, plan: TransportPlan) -> Vector:
        """The log λ that the plan proves for every pair, rounded up; infinite if it proves none."""
        n, k = self.a.shape
        first = np.arange(n) * k
        mass = np.maximum(plan.mass, 0.0)
        shipped = np.bincount((first + plan.source).ravel(), mass.ravel(), n * k).reshape(n, k)
        paid = mass * np.exp(D[plan.source, plan.sink])
        received = np.bincount((first + plan.sink).ravel(), paid.ravel(), n * k).reshape(n, k)
        # Lowering every a(u) by ROUNDING/10, relatively, changes log λ by at most that, and absorbs the cancellation
        # error where b(u) is far below a(u).
        load = np.maximum(self.a * (1 - ROUNDING / 10) - shipped, 0.0) + received
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(load > 0, load / self.b, 0.0)
        return np.asarray(np.log(ratio.max(axis=1)) + ROUNDING, dtype=np.float64)


def _nonzero_first(excess: Matrix, order: Index) -> tuple[Index, Matrix]:
    """The states with positive excess first, each group in the given order, and their excess; one column per pair."""
    row = np.arange(len(excess))[:, None]
    first = np.argsort(excess[row, order] <= 0, axis=1, kind="stable")
    states = order[row, first]
    return states.T.copy(), np.maximum(excess[row, states], 0.0).T.copy()
