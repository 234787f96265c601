"""The tilted quilt on an endless stationary stream: certified losses, and the largest tilt within ε.

The log odds of state x against y at an instant change by at most T(x,y) + left(x,y) + right(x,y), where T is the tilt
matrix of that instant and the other two are certified by `side_solver` (docs/theory-k.md, Theorem 4). The adversary is
the *prior* one, who knows the chain and no other state (SWC Definition 2.1).

Newton's method solves for both sides and for τ simultaneously. The returned bound is certified afterwards, so its
validity does not depend on convergence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix, Vector
from hushmq.pufferfish.quilt.quilt_influence import PowerRatios
from hushmq.pufferfish.quilt.side_solver import MARGINS, CertifiedSide, QuiltBounds, SideSolver
from hushmq.pufferfish.quilt.transport_step import HIGHEST, Index, TransportStep, pairs_of

MAX_NEWTON_STEPS = 40
"""Newton steps before the search falls back to bisection."""

NEWTON_PRECISION = 1e-10
"""The relative change of τ at which Newton's method stops."""

BISECTION_PRECISION = 1e-6
"""The relative error of τ found by bisection; the returned τ is the lower end."""

ORDER_CHOICE_STEPS = (1, 3)
"""The Newton steps at which every transport order is tried: once R is roughly right, and once it is nearly right."""


@dataclass(frozen=True, eq=False)
class CertifiedLoss:
    """A certified loss: with tilt matrix T the log odds of x against y change by at most T + left + right."""

    tilt: Matrix
    left: CertifiedSide
    right: CertifiedSide
    loss: float
    quilt: tuple[int, int]

    @classmethod
    def of(cls, tilt: Matrix, left: CertifiedSide, right: CertifiedSide) -> CertifiedLoss:
        """Combines two certified sides: the maximum over pairs of states."""
        losses = over_pairs(tilt) + left.R + right.R
        worst = int(np.argmax(losses))
        quilt = (int(left.hops[worst]), int(right.hops[worst]))
        return cls(tilt, left, right, float(losses[worst]) * (1 + 1e-15), quilt)

    def losses(self) -> Vector:
        """The certified loss of every ordered pair of states."""
        return over_pairs(self.tilt) + self.left.R + self.right.R


def over_pairs(matrix: Matrix) -> Vector:
    """The off-diagonal entries of a matrix, as a vector over ordered pairs of states."""
    return np.asarray(matrix[pairs_of(len(matrix))], dtype=np.float64)


def uniform_tilt(k: int) -> Matrix:
    """The tilt matrix of k states with 1 between any two different states."""
    return 1.0 - np.eye(k)


def slowest_mode(chain: Chain) -> Vector:
    """The second eigenvector of the chain's additive reversibilisation (P + P*)/2: its slowest-mixing function."""
    root = np.sqrt(chain.stationary())
    flow = root[:, None] * chain.transition / root[None, :]
    return np.asarray(np.linalg.eigh((flow + flow.T) / 2)[1][:, -2] / root, dtype=np.float64)


def transport_orders(chain: Chain) -> Index:
    """Orders in which transport plans empty sources and fill sinks.

    The states are ordered by the slowest mode of the chain and by number; sources and sinks in opposite directions,
    which suits concave distances, and in the same direction.
    """
    plain = np.arange(chain.k)
    along = np.argsort(slowest_mode(chain)) if chain.is_irreducible() else plain
    listed = [along] if np.array_equal(along, plain) or np.array_equal(along[::-1], plain) else [along, plain]
    return np.array([(one, other) for one in listed for other in (one[::-1], one)])


def side_solvers(chain: Chain) -> tuple[SideSolver, SideSolver]:
    """The solvers for the past and the future of an instant; ValueError if the chain is reducible or periodic."""
    period = chain.period()
    if period > 1:
        raise ValueError(
            f"the chain has period {period}; an endless stream of it reveals its phase whatever the noise"
        )
    orders = transport_orders(chain)
    back = chain.reversal()
    left, right = (
        SideSolver(TransportStep.of(c.transition, orders), QuiltBounds(PowerRatios(c).right))
        for c in (back, chain)
    )
    return left, right


def largest_tilt(sides: Sequence[SideSolver], shape: Matrix, epsilon: float) -> CertifiedLoss:
    """The certified loss of the largest τ found for which the tilt matrix τ·shape has a loss of at most ε."""
    nothing = [np.zeros(side.step.pairs) for side in sides]
    bound = _newton(sides, shape, epsilon, _NewtonIterate(1e-3 * epsilon / shape.max(), nothing, nothing))
    if bound is None:
        plain = _start_from_quilts(sides, shape, epsilon)
        bound = _newton(sides, shape, epsilon, plain) or _largest_tilt_by_bisection(
            sides, shape, epsilon, plain.tau
        )
    return bound


def _newton(
    sides: Sequence[SideSolver], shape: Matrix, epsilon: float, start: _NewtonIterate
) -> CertifiedLoss | None:
    """Newton's method from `start`, certified; None if it did not converge or the certification failed."""
    iterate = _solve(sides, shape, start, epsilon)
    for _ in range(3 if iterate.converged else 0):
        certificates = _certify(sides, iterate.tau * shape, iterate.R)
        if certificates is None:
            return None
        bound = CertifiedLoss.of(iterate.tau * shape, *certificates)
        if bound.loss <= epsilon:
            return bound
        # The certification margin exceeded its reserve: lower τ to first order.
        over = (bound.losses() - epsilon) / (over_pairs(shape) + sum(iterate.slopes))
        iterate = iterate.moved(-1.001 * float(over.max()))
    return None


def certify_tilt(sides: Sequence[SideSolver], tilt: Matrix) -> CertifiedLoss:
    """The certified loss of a tilt matrix."""
    return CertifiedLoss.of(tilt, *certified_sides(sides, tilt))


def certified_sides(sides: Sequence[SideSolver], tilt: Matrix) -> list[CertifiedSide]:
    """The certified bound of each side for a tilt matrix."""
    nothing = [np.zeros(side.step.pairs) for side in sides]
    certificates = _certify(sides, tilt, _solve(sides, tilt, _NewtonIterate(1.0, nothing, nothing), None).R)
    return certificates or [side.certify_downwards(tilt) for side in sides]


def _certify(sides: Sequence[SideSolver], tilt: Matrix, R: Sequence[Vector]) -> list[CertifiedSide] | None:
    certificates = [side.certify(tilt, guess) for side, guess in zip(sides, R, strict=True)]
    sound = [proof for proof in certificates if proof is not None]
    return sound if len(sound) == len(certificates) else None


def _start_from_quilts(sides: Sequence[SideSolver], shape: Matrix, epsilon: float) -> _NewtonIterate:
    """A starting point for Newton's method: the largest τ that quilts alone certify, as in MQMExact."""
    low, high = 0.0, epsilon / shape.max()
    R: list[Vector] = []
    while not R or high - low > NEWTON_PRECISION * high:
        tau = (low + high) / 2
        caps = [side.quilt_bound(tau * shape.max()) for side in sides]
        if np.max(tau * over_pairs(shape) + sum(caps)) <= epsilon:
            low, R = tau, caps
        else:
            high = tau
    return _NewtonIterate(low, R, [np.zeros_like(one) for one in R])


def _largest_tilt_by_bisection(
    sides: Sequence[SideSolver], shape: Matrix, epsilon: float, low: float
) -> CertifiedLoss:
    """As `largest_tilt`, for chains on which Newton's method fails; `low` must have a loss of at most ε."""
    high = epsilon / shape.max()
    bound = CertifiedLoss.of(low * shape, *(side.certify_downwards(low * shape) for side in sides))
    known: list[CertifiedSide | None] = [None for _ in sides]
    while high - low > BISECTION_PRECISION * high:
        tau = (low + high) / 2
        certificates = [
            side.certify_downwards(tau * shape, proof) for side, proof in zip(sides, known, strict=True)
        ]
        tried = CertifiedLoss.of(tau * shape, *certificates)
        if tried.loss <= epsilon:
            low, bound = tau, tried
        else:
            high, known = tau, [*certificates]
    return bound


@dataclass(frozen=True, eq=False)
class _NewtonIterate:
    """An iterate of Newton's method: τ, R of each side, and the derivative of each R with respect to τ."""

    tau: float
    R: list[Vector]
    slopes: list[Vector]
    converged: bool = False

    def moved(self, by: float) -> _NewtonIterate:
        """The iterate at τ + by, to first order."""
        by = max(by, -self.tau / 2)
        R = [np.clip(one + by * slope, 0.0, HIGHEST) for one, slope in zip(self.R, self.slopes, strict=True)]
        return _NewtonIterate(self.tau + by, R, self.slopes)


def _solve(
    sides: Sequence[SideSolver], shape: Matrix, iterate: _NewtonIterate, epsilon: float | None
) -> _NewtonIterate:
    """Newton's method for R = F(R) on all sides and, if an ε is given, for loss = ε in τ."""
    direct = over_pairs(shape)
    for step in range(MAX_NEWTON_STEPS):
        T = iterate.tau * shape
        if step in ORDER_CHOICE_STEPS:
            for side, R in zip(sides, iterate.R, strict=True):
                side.choose_orders(T, R)
        newton_steps = [side.newton_step(T, shape, R) for side, R in zip(sides, iterate.R, strict=True)]
        iterate = _NewtonIterate(
            iterate.tau,
            [newton_step.R for newton_step in newton_steps],
            [newton_step.slope for newton_step in newton_steps],
        )
        by = 0.0
        if epsilon is not None:
            growth = direct + sum(iterate.slopes)
            reserve = 1.1 * MARGINS[0] * (len(sides) + sum(iterate.slopes))
            room = epsilon - reserve - iterate.tau * direct - sum(iterate.R)
            by = min(float(np.min(room / growth)), epsilon / shape.max() - iterate.tau)
        if not np.isfinite(by + sum(one.sum() for one in iterate.R)):
            return iterate
        iterate = iterate.moved(by)
        if (
            max(newton_step.residual for newton_step in newton_steps) <= MARGINS[0] / 10
            and abs(by) <= NEWTON_PRECISION * iterate.tau
        ):
            return replace(iterate, converged=True)
    return iterate
