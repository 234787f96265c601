"""The tilted quilt on an endless stationary stream: certified losses, and the largest tilt within ε.

For an instant i, the log odds of x against y move by at most T(x,y) + left(x,y) + right(x,y), where T is the tilt of
instant i itself and the other two are certified by `side` (docs/theory-k.md, Theorem 4). The adversary is the *prior*
one, who believes in the chain and knows no other state (SWC Definition 2.1).

Newton's method looks for both sides and for τ at once. What is returned is proved, not merely converged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix, Vector
from hushmq.pufferfish.quilt.quilt_influence import Ends
from hushmq.pufferfish.quilt.side_solver import MARGINS, Proof, Quilts, Side
from hushmq.pufferfish.quilt.transport_step import HIGHEST, Index, Step, pairs_of

STEPS = 40
"""Newton steps before another way is tried."""

SETTLED = 1e-10
"""The relative change of τ at which the search ends; what is returned is proved all the same."""

ROUGHLY = 1e-6
"""The relative error of τ that bisection leaves, on the safe side."""

CHOOSE_AT = (1, 3)
"""The steps at which all orders of transport are tried: when R is roughly right, and when it nearly is."""


@dataclass(frozen=True, eq=False)
class Bound:
    """A certified loss: for tilt matrix T, log odds of x against y move by at most T + left + right."""

    tilt: Matrix
    left: Proof
    right: Proof
    loss: float
    quilt: tuple[int, int]

    @classmethod
    def of(cls, tilt: Matrix, left: Proof, right: Proof) -> Bound:
        """The two sides put together: the worst pair of states decides."""
        losses = flat(tilt) + left.R + right.R
        worst = int(np.argmax(losses))
        quilt = (int(left.hops[worst]), int(right.hops[worst]))
        return cls(tilt, left, right, float(losses[worst]) * (1 + 1e-15), quilt)

    def losses(self) -> Vector:
        """The certified loss of every ordered pair of states."""
        return flat(self.tilt) + self.left.R + self.right.R


def flat(matrix: Matrix) -> Vector:
    """A matrix as a vector over ordered pairs."""
    return np.asarray(matrix[pairs_of(len(matrix))], dtype=np.float64)


def even(k: int) -> Matrix:
    """The shape of a tilt that costs the same between any two of k states."""
    return 1.0 - np.eye(k)


def slowest_mode(chain: Chain) -> Vector:
    """The function of the state that a chain forgets last, if run forwards and backwards at random."""
    root = np.sqrt(chain.stationary())
    flow = root[:, None] * chain.transition / root[None, :]
    return np.asarray(np.linalg.eigh((flow + flow.T) / 2)[1][:, -2] / root, dtype=np.float64)


def orders_of(chain: Chain) -> Index:
    """Orders in which to empty sources and fill sinks.

    Along the slowest mode of the chain and along the states' numbers; against each other, which suits distances
    that flatten out, and alike.
    """
    plain = np.arange(chain.k)
    along = np.argsort(slowest_mode(chain)) if chain.is_irreducible() else plain
    listed = [along] if np.array_equal(along, plain) or np.array_equal(along[::-1], plain) else [along, plain]
    return np.array([(one, other) for one in listed for other in (one[::-1], one)])


def sides_of(chain: Chain) -> tuple[Side, Side]:
    """The solvers for the past and the future of one instant; a chain that never forgets is refused."""
    period = chain.period()
    if period > 1:
        raise ValueError(
            f"the chain has period {period}; an endless stream of it reveals its phase whatever the noise"
        )
    orders = orders_of(chain)
    back = chain.reversal()
    left, right = (Side(Step.of(c.transition, orders), Quilts(Ends(c).right)) for c in (back, chain))
    return left, right


def largest_tilt(sides: Sequence[Side], shape: Matrix, epsilon: float) -> Bound:
    """The largest τ for which the tilt matrix τ·shape has a certified loss within ε, with its proof."""
    nothing = [np.zeros(side.step.pairs) for side in sides]
    bound = _newton(sides, shape, epsilon, _Found(1e-3 * epsilon / shape.max(), nothing, nothing))
    if bound is None:
        plain = _quilts_alone(sides, shape, epsilon)
        bound = _newton(sides, shape, epsilon, plain) or _bisect(sides, shape, epsilon, plain.tau)
    return bound


def _newton(sides: Sequence[Side], shape: Matrix, epsilon: float, start: _Found) -> Bound | None:
    """Newton's method and a proof of where it led; None where it did not settle or nothing could be proved."""
    found = _solve(sides, shape, start, epsilon)
    for _ in range(3 if found.settled else 0):
        proofs = _prove(sides, found.tau * shape, found.R)
        if proofs is None:
            return None
        bound = Bound.of(found.tau * shape, *proofs)
        if bound.loss <= epsilon:
            return bound
        # The margin of the proof cost a little more than was set aside for it.
        over = (bound.losses() - epsilon) / (flat(shape) + sum(found.slopes))
        found = found.moved(-1.001 * float(over.max()))
    return None


def bounded_loss(sides: Sequence[Side], tilt: Matrix) -> Bound:
    """The certified loss of a tilt matrix."""
    return Bound.of(tilt, *certified(sides, tilt))


def certified(sides: Sequence[Side], tilt: Matrix) -> list[Proof]:
    """The certified bound of each side for a tilt matrix, with its proof."""
    nothing = [np.zeros(side.step.pairs) for side in sides]
    proofs = _prove(sides, tilt, _solve(sides, tilt, _Found(1.0, nothing, nothing), None).R)
    return proofs or [side.descend(tilt) for side in sides]


def _prove(sides: Sequence[Side], tilt: Matrix, R: Sequence[Vector]) -> list[Proof] | None:
    proofs = [side.prove(tilt, guess) for side, guess in zip(sides, R, strict=True)]
    sound = [proof for proof in proofs if proof is not None]
    return sound if len(sound) == len(proofs) else None


def _quilts_alone(sides: Sequence[Side], shape: Matrix, epsilon: float) -> _Found:
    """The largest τ that the quilts of both sides can prove without tilt, which is MQMExact's."""
    low, high = 0.0, epsilon / shape.max()
    R: list[Vector] = []
    while not R or high - low > SETTLED * high:
        tau = (low + high) / 2
        caps = [side.quilts_alone(tau * shape.max()) for side in sides]
        if np.max(tau * flat(shape) + sum(caps)) <= epsilon:
            low, R = tau, caps
        else:
            high = tau
    return _Found(low, R, [np.zeros_like(one) for one in R])


def _bisect(sides: Sequence[Side], shape: Matrix, epsilon: float, low: float) -> Bound:
    """As `largest_tilt`, for chains on which Newton's method goes astray; at least `low` is within ε."""
    high = epsilon / shape.max()
    bound = Bound.of(low * shape, *(side.descend(low * shape) for side in sides))
    known: list[Proof | None] = [None for _ in sides]
    while high - low > ROUGHLY * high:
        tau = (low + high) / 2
        proofs = [side.descend(tau * shape, proof) for side, proof in zip(sides, known, strict=True)]
        tried = Bound.of(tau * shape, *proofs)
        if tried.loss <= epsilon:
            low, bound = tau, tried
        else:
            high, known = tau, [*proofs]
    return bound


@dataclass(frozen=True, eq=False)
class _Found:
    """Where Newton's method stands: τ, R of each side, and how each R follows τ."""

    tau: float
    R: list[Vector]
    slopes: list[Vector]
    settled: bool = False

    def moved(self, by: float) -> _Found:
        """The same at τ + by, to first order."""
        by = max(by, -self.tau / 2)
        R = [np.clip(one + by * slope, 0.0, HIGHEST) for one, slope in zip(self.R, self.slopes, strict=True)]
        return _Found(self.tau + by, R, self.slopes)


def _solve(sides: Sequence[Side], shape: Matrix, found: _Found, epsilon: float | None) -> _Found:
    """Newton's method for R = F(R) on all sides, and for loss = ε in τ where an ε is given."""
    direct = flat(shape)
    for step in range(STEPS):
        T = found.tau * shape
        if step in CHOOSE_AT:
            for side, R in zip(sides, found.R, strict=True):
                side.choose(T, R)
        tangents = [side.tangent(T, shape, R) for side, R in zip(sides, found.R, strict=True)]
        found = _Found(
            found.tau, [tangent.R for tangent in tangents], [tangent.slope for tangent in tangents]
        )
        by = 0.0
        if epsilon is not None:
            growth = direct + sum(found.slopes)
            reserve = 1.1 * MARGINS[0] * (len(sides) + sum(found.slopes))
            room = epsilon - reserve - found.tau * direct - sum(found.R)
            by = min(float(np.min(room / growth)), epsilon / shape.max() - found.tau)
        if not np.isfinite(by + sum(one.sum() for one in found.R)):
            return found
        found = found.moved(by)
        if max(tangent.miss for tangent in tangents) <= MARGINS[0] / 10 and abs(by) <= SETTLED * found.tau:
            return replace(found, settled=True)
    return found
