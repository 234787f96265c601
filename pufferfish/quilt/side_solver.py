"""One side of the tilted quilt: a certified bound R on the log-ratio from all instants after (or before) the secret.

R(x,y) bounds log E[ℓ | X=x] / E[ℓ | X=y], where ℓ is the transcript's likelihood as a function of that side's
states, and changing one of them from v to u multiplies ℓ by at most e^{T(u,v)}. T is the tilt matrix. R is
*certified* if one step from R proves at most R (docs/theory-k.md, Theorem 3): for every pair x ≠ y either

- a transport plan proves R(x,y) from D = T + R (`transport_step`), or
- the state h instants away has max-influence E_h(x,y), and (h−1)·max T + E_h(x,y) ≤ R(x,y).

The Markov quilt mechanism uses the second condition alone, so the bound never exceeds that of MQMExact. Newton's method
finds the fixed point; `SideSolver.certify` checks every returned bound, whether or not the iteration converged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.quilt.markov_chain import Matrix, Vector
from hushmq.pufferfish.quilt.step_jacobian import StepJacobian
from hushmq.pufferfish.quilt.transport_step import ROUNDING, Index, TransportPlan, TransportStep, pairs_of

MARGINS = (4e-12, 1e-10, 1e-8, 1e-6)
"""The margins above the fixed point that the certification tries, in this order."""

FARTHEST_QUILT = 2**40
"""The largest distance of a quilt node."""

MAX_PROBES = 200
"""The largest number of distances between powers of two that one search evaluates."""

UNIT = float(np.finfo(np.float64).eps)

REFINEMENTS = 300
"""The largest number of monotone steps from the quilt bound where Newton's method has failed."""


@dataclass(frozen=True, eq=False)
class CertifiedSide:
    """A certified R over ordered pairs, with its proof.

    `hops[n]` is 1 for a pair proved by the transport plan, otherwise the distance h of the quilt node that proves it.
    """

    R: Vector
    hops: Index
    plan: TransportPlan


@dataclass(frozen=True, eq=False)
class NewtonStep:
    """A Newton step from R: the residual of R = F(R), the next R, and its derivative with respect to τ."""

    residual: float
    R: Vector
    slope: Vector


class QuiltBounds:
    """Bounds from the quilt nodes of one side alone: max-influences, pair by pair (SWC Definition 4.1)."""

    def __init__(self, influences: Callable[[int], Matrix]) -> None:
        """`influences(h)[x,y]` is E_h(x,y), the influence on the node h instants away; it falls in h."""
        self._influences = influences
        self._influence_of: dict[int, Vector] = {}

    def least_cost(self, hop_cost: float, below: Vector, improvement: float = 1.0) -> tuple[Vector, Index]:
        """The least (h−1)·hop_cost + E_h over all h, and its h; exact where it is below `below`.

        For lo < h < hi the cost is at least lo·hop_cost + E_hi, which excludes most distances. A factor `improvement`
        below 1 excludes more, at the price of a result that may exceed the minimum by 1/improvement.
        """
        best = self.at(1)
        hops = np.ones(len(best), dtype=np.intp)
        spans: list[tuple[int, int]] = []
        far = 1
        while far < FARTHEST_QUILT and (far - 1) * hop_cost < np.minimum(best, below).max():
            spans.append((far, 2 * far))
            far *= 2
            best, hops = self._better(far, hop_cost, best, hops)
        probes = MAX_PROBES
        while spans and probes > 0:
            lo, hi = spans.pop()
            if hi - lo > 1 and np.any(lo * hop_cost + self.at(hi) < improvement * np.minimum(best, below)):
                middle = (lo + hi) // 2
                best, hops = self._better(middle, hop_cost, best, hops)
                spans += [(lo, middle), (middle, hi)]
                probes -= 1
        return best, hops

    def _better(self, h: int, hop_cost: float, best: Vector, hops: Index) -> tuple[Vector, Index]:
        cost = (h - 1) * hop_cost + self.at(h)
        return np.minimum(best, cost), np.where(cost < best, h, hops)

    def at(self, h: int) -> Vector:
        """E_h, rounded up."""
        if h not in self._influence_of:
            ratios = self._influences(h)
            k = len(ratios)
            # Sums of non-negative terms: the relative error of an entry of P^h is below h·(k+2) unit roundoffs.
            self._influence_of[h] = np.maximum(ratios[pairs_of(k)], 0.0) + 2 * h * (k + 2) * UNIT
        return self._influence_of[h]


class SideSolver:
    """The solver for one side; it stores the transport orders and the slope of the last call as starting values."""

    def __init__(self, step: TransportStep, quilts: QuiltBounds) -> None:
        """`step` is the transport step of the side's chain, `quilts` its quilt bounds."""
        self.step = step
        self.quilts = quilts
        self._order_of_pair = np.zeros(step.pairs, dtype=np.intp)
        self._slope: Vector | None = None

    def as_matrix(self, values: Vector) -> Matrix:
        """A vector over ordered pairs as a matrix with a zero diagonal."""
        matrix = np.zeros((self.step.states, self.step.states))
        matrix[pairs_of(self.step.states)] = values
        return matrix

    def choose_orders(self, T: Matrix, R: Vector) -> None:
        """Chooses for each pair the transport order with the least bound at R."""
        D = T + self.as_matrix(R)
        every = (np.full(self.step.pairs, order) for order in range(len(self.step.orders)))
        self._order_of_pair = np.argmin([self.step.solve_plan(D, R, choice)[0] for choice in every], axis=0)

    def quilt_bound(self, hop_cost: float) -> Vector:
        """The bound from quilts alone, within a factor 1/0.9 of the best."""
        return self.quilts.least_cost(hop_cost, np.full(self.step.pairs, np.inf), 0.9)[0]

    def newton_step(self, T: Matrix, shape: Matrix, R: Vector) -> NewtonStep:
        """A Newton step from R for R = F(R), with T = τ·shape."""
        least_cost, hops = self.quilts.least_cost(T.max(), R)
        R = np.minimum(R, least_cost)
        D = T + self.as_matrix(R)
        moved, plan = self.step.solve_plan(D, R, self._order_of_pair)
        capped = least_cost < moved
        jacobian = self._jacobian(plan, capped)
        residual = np.where(capped, least_cost, moved) - R
        source = jacobian.apply(shape[pairs_of(len(shape))])
        source = np.where(capped, (hops - 1) * shape.max(), source)
        self._slope = jacobian.solve(source, self._slope)
        return NewtonStep(float(np.abs(residual).max()), R + jacobian.solve(residual), self._slope)

    def certify(self, T: Matrix, R: Vector) -> CertifiedSide | None:
        """A certified bound just above R; None if none of the margins suffices."""
        if not np.all(np.isfinite(R)):
            return None
        D = T + self.as_matrix(R)
        _, plan = self.step.plan(D, R, self._order_of_pair)
        capped = self.quilts.least_cost(T.max(), R)[0] <= R
        direction = self._jacobian(plan, capped).solve(np.ones(self.step.pairs))
        if not np.all(np.isfinite(direction)):
            return None
        proofs = (self._certificate(T, np.maximum(R + margin * direction, 0.0)) for margin in MARGINS)
        return next((proof for proof in proofs if proof is not None), None)

    def certify_downwards(self, T: Matrix, earlier: CertifiedSide | None = None) -> CertifiedSide:
        """A certified bound without Newton's method: the quilt bound, improved by monotone steps.

        If F(R) ≤ R and R' = min(R, F(R)), then F(R') ≤ R' because F is monotone, so every iterate is certified.
        For the same reason a certificate `earlier` for a larger tilt remains valid.
        """
        R, hops = self.quilts.least_cost(T.max(), np.full(self.step.pairs, np.inf), 0.9)
        self.choose_orders(T, R)
        _, plan = self.step.solve_plan(T + self.as_matrix(R), R, self._order_of_pair)
        if earlier is not None:
            better = earlier.R < R
            R, hops = np.minimum(earlier.R, R), np.where(better, earlier.hops, hops)
            plan = earlier.plan.where(better, plan)
        for _ in range(REFINEMENTS):
            D = T + self.as_matrix(R)
            moved, _ = self.step.solve_plan(D, R, self._order_of_pair)
            _, refined = self.step.plan(D, moved + 2 * ROUNDING, self._order_of_pair)
            bound = self.step.bound(D, refined)
            better = bound < R
            if not np.any(R - bound > 1e-9 * R):
                break
            R, hops = np.where(better, bound, R), np.where(better, 1, hops)
            plan = refined.where(better, plan)
        least_cost, farther = self.quilts.least_cost(T.max(), R)
        return CertifiedSide(np.minimum(least_cost, R), np.where(least_cost < R, farther, hops), plan)

    def _certificate(self, T: Matrix, R: Vector) -> CertifiedSide | None:
        """R with its proof; None if one step from R exceeds R for some pair."""
        D = T + self.as_matrix(R)
        least_cost, hops = self.quilts.least_cost(T.max(), R)
        _, plan = self.step.plan(D, R - 2 * ROUNDING, self._order_of_pair)
        by_plan = self.step.bound(D, plan) <= R
        for order in range(len(self.step.orders)):
            if np.all(by_plan | (least_cost <= R)):
                return CertifiedSide(R, np.where(by_plan, 1, hops), plan)
            _, other = self.step.plan(D, R - 2 * ROUNDING, np.full(self.step.pairs, order))
            plan = plan.where(by_plan, other)
            by_plan = self.step.bound(D, plan) <= R
        return (
            CertifiedSide(R, np.where(by_plan, 1, hops), plan)
            if np.all(by_plan | (least_cost <= R))
            else None
        )

    def _jacobian(self, plan: TransportPlan, capped: NDArray[np.bool_]) -> StepJacobian:
        """The Jacobian of one step; the rows of pairs bounded by a quilt are 0."""
        return StepJacobian(np.where(capped, 0.0, plan.price), self.step.paid_pair(plan))
