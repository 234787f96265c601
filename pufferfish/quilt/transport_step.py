"""One step of the tilted quilt, pair by pair (docs/theory-k.md, Lemma 2).

Let g(u) be what the future of the transcript is worth when the next state is u. All that is known about g is
`g(u) ≤ e^{D(u,v)}·g(v)` for all u, v. One step earlier, state x puts its mass a on the next states and state y its
mass b, and the question is how large `a·g / b·g` can be. The answer is a transport problem: ship the mass a, paying
e^{D(u,v)} for what goes from u to v, so that no v receives more than λ·b(v). Any plan f is a proof:

    a·g ≤ Σ f(u,v)·g(u) ≤ Σ f(u,v)·e^{D(u,v)}·g(v) ≤ λ·(b·g).

So `Step.bound` may be believed whoever made the plan, and `Step.plan` is free to be greedy: it fills sinks in a
fixed order of the states (the north-west corner rule), in the best of a few orders. Up to four states that is
optimal; beyond, it is within a fraction of a percent of the linear program. All ordered pairs go at once.
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
"""Added to every bound: more than all rounding in a step of up to a thousand states, less than anyone can measure."""

HIGHEST = 300.0
"""No plan is made for a D beyond, where its exponential would leave the range of numbers."""

ROUGH, FINE, TRIES = 0.02, 1e-10, 12
"""Log λ is looked for again while it moves by more than this, roughly or finely, at most so many times."""


@cache
def pairs_of(k: int) -> tuple[Index, Index]:
    """All ordered pairs x ≠ y of k states, in the order in which every vector over pairs lists them."""
    x, y = np.nonzero(~np.eye(k, dtype=bool))
    return x, y


@dataclass(frozen=True, eq=False)
class Plan:
    """Shipments of every pair: pair n sends `mass[s, n]` from state `source[s, n]` to state `sink[s, n]`.

    `price[s, n]` is the shipment's share in log λ: the derivative of the bound by D(source, sink). `fits[n]` says
    whether no sink was overfilled for the λ the plan was made for.
    """

    source: Index
    sink: Index
    mass: Matrix
    price: Matrix
    fits: NDArray[np.bool_]

    def where(self, better: NDArray[np.bool_], other: Plan) -> Plan:
        """The pairs in `better` keep this plan, the rest take the other."""
        slots = max(len(self.mass), len(other.mass))

        def pick(mine: NDArray[Any], theirs: NDArray[Any]) -> NDArray[Any]:
            padded = (np.pad(part, ((0, slots - len(part)), (0, 0))) for part in (mine, theirs))
            return np.where(better, *padded)

        return Plan(
            pick(self.source, other.source),
            pick(self.sink, other.sink),
            pick(self.mass, other.mass),
            pick(self.price, other.price),
            np.where(better, self.fits, other.fits),
        )


@dataclass(frozen=True, eq=False)
class Step:
    """The rows of all ordered pairs x ≠ y: a[n] is the mass of x, b[n] the mass of y, over the states.

    `orders[o]` holds two orders of the states: in which sources are emptied, and in which sinks are filled.
    """

    states: int
    a: Matrix
    b: Matrix
    orders: Index

    @classmethod
    def of(cls, P: Matrix, orders: Index) -> Step:
        """The step of a chain."""
        x, y = pairs_of(len(P))
        return cls(len(P), P[x], P[y], orders)

    @property
    def pairs(self) -> int:
        """The number of ordered pairs."""
        return len(self.a)

    @cached_property
    def ceiling(self) -> Vector:
        """What no step exceeds, whatever D is: log max a/b."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(self.a > 0, self.a / self.b, 0.0)
        return np.asarray(np.log(ratios.max(axis=1)), dtype=np.float64)

    def target(self, plan: Plan) -> Index:
        """The number of the pair whose D each shipment pays; the number of pairs stands for the diagonal."""
        number = np.full((self.states, self.states), self.pairs)
        number[pairs_of(self.states)] = np.arange(self.pairs)
        return np.asarray(number[plan.source, plan.sink], dtype=np.intp)

    def plan(self, D: Matrix, guess: Vector, choice: Index) -> tuple[Vector, Plan]:
        """Greedy plans in the orders `choice`, and log λ where supply meets demand along them.

        `guess` is a guess at log λ for each pair. The returned log λ is a Newton step from there, exact once
        the plan no longer changes its shape.
        """
        k = self.states
        W = np.exp(D).ravel()
        rows = np.arange(self.pairs)
        excess = self.a - np.exp(guess)[:, None] * self.b
        sources, supplies = _queue(excess, self.orders[choice, 0])
        sinks, demands = _queue(-excess, self.orders[choice, 1])
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
            # The last sink takes whatever is left: the plan is complete even where the guess was too low.
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
        # Where all of a fits below λ·b, or the reverse, only the constant g is left, and its ratio is 1.
        top, bottom = np.where(balanced, top, 1.0), np.where(balanced, bottom, 1.0)
        fits = np.where(balanced, demand >= 0, more_sources < 0)
        return np.log(top / bottom), Plan(source, sink, mass, value / top, fits)

    def settle(self, D: Matrix, start: Vector, choice: Index, enough: float = ROUGH) -> tuple[Vector, Plan]:
        """The least log λ for which the plan in the chosen order fits, by Newton's method kept in bounds."""
        # At the ceiling itself nothing is shipped and the plan has no shape to learn from.
        low, high = np.full(self.pairs, -1.0), self.ceiling - 1e-9
        guess = np.minimum(start, high)
        for _ in range(TRIES):
            moved, plan = self.plan(D, guess, choice)
            low, high = np.where(plan.fits, low, guess), np.where(plan.fits, guess, high)
            inside = (moved > low - 1e-7) & (moved < high + 1e-7)
            moved = np.where(inside, moved, (low + high) / 2)
            if np.abs(moved - guess).max() < enough:
                break
            guess = moved
        return moved, plan

    def least(self, D: Matrix, start: Vector) -> Vector:
        """The least log λ that a plan in any of the orders proves, looked for from `start`."""
        # The ratio of two means of g is never above its largest value over its least.
        known = np.minimum(self.ceiling + ROUNDING, D.max())
        if not 0.0 < D.max() <= HIGHEST:
            return np.asarray(known, dtype=np.float64)
        count = len(self.orders)
        every = Step(self.states, np.tile(self.a, (count, 1)), np.tile(self.b, (count, 1)), self.orders)
        choice = np.repeat(np.arange(count), self.pairs)
        moved, _ = every.settle(D, np.tile(start, count), choice, FINE)
        _, plan = every.plan(D, moved + 2 * ROUNDING, choice)
        bounds = every.bound(D, plan).reshape(count, self.pairs)
        return np.asarray(np.clip(bounds.min(axis=0), 0.0, known), dtype=np.float64)

    def bound(self, D: Matrix, plan: Plan) -> Vector:
        """What the plan proves for log λ of every pair, rounding included; infinite where it proves nothing."""
        n, k = self.a.shape
        first = np.arange(n) * k
        mass = np.maximum(plan.mass, 0.0)
        gone = np.bincount((first + plan.source).ravel(), mass.ravel(), n * k).reshape(n, k)
        paid = mass * np.exp(D[plan.source, plan.sink])
        come = np.bincount((first + plan.sink).ravel(), paid.ravel(), n * k).reshape(n, k)
        # Lowering every a(u) by a tenth of ROUNDING, relatively, costs no more than that in log λ. It hides what
        # subtraction loses where b(u) is far below a(u).
        load = np.maximum(self.a * (1 - ROUNDING / 10) - gone, 0.0) + come
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(load > 0, load / self.b, 0.0)
        return np.asarray(np.log(ratio.max(axis=1)) + ROUNDING, dtype=np.float64)


def _queue(excess: Matrix, order: Index) -> tuple[Index, Matrix]:
    """The states with positive excess first, in the given order, and their excess; one column per pair."""
    row = np.arange(len(excess))[:, None]
    first = np.argsort(excess[row, order] <= 0, axis=1, kind="stable")
    states = order[row, first]
    return states.T.copy(), np.maximum(excess[row, states], 0.0).T.copy()
