"""One side of the tilted quilt: a matrix R that bounds what all instants after (or before) the secret reveal.

R(x,y) bounds log E[ℓ | X=x] / E[ℓ | X=y], where ℓ is the transcript's likelihood as a function of that side's
states, and changing one of them from v to u multiplies ℓ by at most e^{T(u,v)}. T is the tilt matrix. R is
*certified* when one step from R proves no more than R (docs/theory-k.md, Theorem 3): for every pair x ≠ y either

- a transport plan proves R(x,y) from D = T + R (`pairs`), or
- the state h instants away has max-influence E_h(x,y), and (h−1)·max T + E_h(x,y) ≤ R(x,y).

The second alone is what the Markov quilt mechanism uses, so the bound is never above MQMExact. Newton's method
finds the fixed point; nothing rests on its having converged, since `Side.prove` checks what is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.quilt.markov_chain import Matrix, Vector
from hushmq.pufferfish.quilt.step_jacobian import Sensitivity
from hushmq.pufferfish.quilt.transport_step import ROUNDING, Index, Plan, Step, pairs_of

MARGINS = (4e-12, 1e-10, 1e-8, 1e-6)
"""How far above the fixed point to try to prove it."""

FARTHEST = 2**40
"""No quilt is looked for beyond; a chain that needs one has not forgotten its state after ages."""

LOOKS = 200
"""How many distances between powers of two are looked at in one search, should none be ruled out."""

UNIT = float(np.finfo(np.float64).eps)

REFINEMENTS = 300
"""Steps downwards from the quilt mechanism's own bound, where Newton's method has failed."""


@dataclass(frozen=True, eq=False)
class Proof:
    """A certified R with what proves it, over ordered pairs.

    `hops[n]` is 1 where the plan is the proof; otherwise the distance h whose max-influence is.
    """

    R: Vector
    hops: Index
    plan: Plan


@dataclass(frozen=True, eq=False)
class Tangent:
    """The linear view of one step from R: how far it leads, where R should be instead, and how that follows τ."""

    miss: float
    R: Vector
    slope: Vector


class Quilts:
    """What the quilt nodes of one side prove by themselves: max-influences, pair by pair (SWC Definition 4.1)."""

    def __init__(self, influences: Callable[[int], Matrix]) -> None:
        """`influences(h)[x,y]` is the influence E_h(x,y) on the node h instants away; it falls with h."""
        self._influences = influences
        self._known: dict[int, Vector] = {}

    def cap(self, hop_cost: float, below: Vector, worth: float = 1.0) -> tuple[Vector, Index]:
        """The least (h−1)·hop_cost + E_h over all h, and the h that gives it, where it is less than `below`.

        Between two distances lo < h < hi the cost is at least lo·hop_cost + E_hi, which rules out most of them,
        the more so if only an improvement by the factor `worth` is wanted.
        """
        best = self.at(1)
        hops = np.ones(len(best), dtype=np.intp)
        spans: list[tuple[int, int]] = []
        far = 1
        while far < FARTHEST and (far - 1) * hop_cost < np.minimum(best, below).max():
            spans.append((far, 2 * far))
            far *= 2
            best, hops = self._better(far, hop_cost, best, hops)
        looks = LOOKS
        while spans and looks > 0:
            lo, hi = spans.pop()
            if hi - lo > 1 and np.any(lo * hop_cost + self.at(hi) < worth * np.minimum(best, below)):
                middle = (lo + hi) // 2
                best, hops = self._better(middle, hop_cost, best, hops)
                spans += [(lo, middle), (middle, hi)]
                looks -= 1
        return best, hops

    def _better(self, h: int, hop_cost: float, best: Vector, hops: Index) -> tuple[Vector, Index]:
        cost = (h - 1) * hop_cost + self.at(h)
        return np.minimum(best, cost), np.where(cost < best, h, hops)

    def at(self, h: int) -> Vector:
        """E_h, rounding included."""
        if h not in self._known:
            ratios = self._influences(h)
            k = len(ratios)
            # A power of a chain, all terms positive, is off by less than h·(k+2) roundings, entry by entry.
            self._known[h] = np.maximum(ratios[pairs_of(k)], 0.0) + 2 * h * (k + 2) * UNIT
        return self._known[h]


class Side:
    """The solver for one side. It remembers what speeds up the next question, and nothing else."""

    def __init__(self, step: Step, quilts: Quilts) -> None:
        """`step` holds the rows of the side's chain, `quilts` the distances a quilt can have."""
        self.step = step
        self.quilts = quilts
        self._choice = np.zeros(step.pairs, dtype=np.intp)
        self._slope: Vector | None = None

    def square(self, values: Vector) -> Matrix:
        """A vector over ordered pairs as a matrix with a zero diagonal."""
        matrix = np.zeros((self.step.states, self.step.states))
        matrix[pairs_of(self.step.states)] = values
        return matrix

    def choose(self, T: Matrix, R: Vector) -> None:
        """Settle for each pair which order of transport proves most at R."""
        D = T + self.square(R)
        every = (np.full(self.step.pairs, order) for order in range(len(self.step.orders)))
        self._choice = np.argmin([self.step.settle(D, R, choice)[0] for choice in every], axis=0)

    def quilts_alone(self, hop_cost: float) -> Vector:
        """What the quilts of this side prove without tilt, give or take a tenth."""
        return self.quilts.cap(hop_cost, np.full(self.step.pairs, np.inf), 0.9)[0]

    def tangent(self, T: Matrix, shape: Matrix, R: Vector) -> Tangent:
        """One step from R, to first order in R and in τ, where T = τ·shape."""
        cap, hops = self.quilts.cap(T.max(), R)
        R = np.minimum(R, cap)
        D = T + self.square(R)
        moved, plan = self.step.settle(D, R, self._choice)
        capped = cap < moved
        sensitivity = self._sensitivity(plan, capped)
        miss = np.where(capped, cap, moved) - R
        push = sensitivity.apply(shape[pairs_of(len(shape))])
        push = np.where(capped, (hops - 1) * shape.max(), push)
        self._slope = sensitivity.settle(push, self._slope)
        return Tangent(float(np.abs(miss).max()), R + sensitivity.settle(miss), self._slope)

    def prove(self, T: Matrix, R: Vector) -> Proof | None:
        """A certified bound hardly above R; None where there is none so close."""
        if not np.all(np.isfinite(R)):
            return None
        D = T + self.square(R)
        _, plan = self.step.plan(D, R, self._choice)
        capped = self.quilts.cap(T.max(), R)[0] <= R
        upwards = self._sensitivity(plan, capped).settle(np.ones(self.step.pairs))
        if not np.all(np.isfinite(upwards)):
            return None
        proofs = (self._proof(T, np.maximum(R + margin * upwards, 0.0)) for margin in MARGINS)
        return next((proof for proof in proofs if proof is not None), None)

    def descend(self, T: Matrix, known: Proof | None = None) -> Proof:
        """A certified bound found without guessing: the best quilt of every pair, improved step by step.

        If F(R) ≤ R and R' = min(R, F(R)), then F(R') ≤ R' because F is monotone, so that every step is certified.
        For the same reason a proof `known` for a larger tilt still holds.
        """
        R, hops = self.quilts.cap(T.max(), np.full(self.step.pairs, np.inf), 0.9)
        self.choose(T, R)
        _, plan = self.step.settle(T + self.square(R), R, self._choice)
        if known is not None:
            better = known.R < R
            R, hops = np.minimum(known.R, R), np.where(better, known.hops, hops)
            plan = known.plan.where(better, plan)
        for _ in range(REFINEMENTS):
            D = T + self.square(R)
            moved, _ = self.step.settle(D, R, self._choice)
            _, refined = self.step.plan(D, moved + 2 * ROUNDING, self._choice)
            bound = self.step.bound(D, refined)
            better = bound < R
            if not np.any(R - bound > 1e-9 * R):
                break
            R, hops = np.where(better, bound, R), np.where(better, 1, hops)
            plan = refined.where(better, plan)
        cap, farther = self.quilts.cap(T.max(), R)
        return Proof(np.minimum(cap, R), np.where(cap < R, farther, hops), plan)

    def _proof(self, T: Matrix, R: Vector) -> Proof | None:
        """R with its proof, or None if for some pair one step from R proves less."""
        D = T + self.square(R)
        cap, hops = self.quilts.cap(T.max(), R)
        _, plan = self.step.plan(D, R - 2 * ROUNDING, self._choice)
        by_plan = self.step.bound(D, plan) <= R
        for order in range(len(self.step.orders)):
            if np.all(by_plan | (cap <= R)):
                return Proof(R, np.where(by_plan, 1, hops), plan)
            _, other = self.step.plan(D, R - 2 * ROUNDING, np.full(self.step.pairs, order))
            plan = plan.where(by_plan, other)
            by_plan = self.step.bound(D, plan) <= R
        return Proof(R, np.where(by_plan, 1, hops), plan) if np.all(by_plan | (cap <= R)) else None

    def _sensitivity(self, plan: Plan, capped: NDArray[np.bool_]) -> Sensitivity:
        """The derivative of one step: a bound that comes from a quilt does not depend on R."""
        return Sensitivity(np.where(capped, 0.0, plan.price), self.step.target(plan))
