"""One side of a stretch of constant tilt with nothing behind it, instant by instant (docs/theory-k.md, Theorem 5).

From the far end towards the secret: if R bounds what lies beyond an instant, and T is that instant's tilt, then one
step from D = T + R bounds what lies beyond the instant before it. A bound certified for an endless stretch holds
throughout, so that only a short stretch has to be walked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushmq.pufferfish.quilt.endless_quilt import certified, flat, orders_of
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix, Vector
from hushmq.pufferfish.quilt.quilt_influence import Ends
from hushmq.pufferfish.quilt.side_solver import Proof, Quilts, Side
from hushmq.pufferfish.quilt.transport_step import Step

SLACKS = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""A bound still above that of its own tilt, for ever, may already be below that of a slightly larger one."""

PATIENCE = 128
"""Instants that are walked one by one at most; every further one is charged in full, or with all of an endless side."""

LONG = 8
"""A stretch that is so many times longer than full tilts take to add up to the endless bound counts as endless."""

SETTLED = 1e-9
"""A bound this close to the endless one, relatively, is there."""


@dataclass(frozen=True, eq=False)
class Stretch:
    """Bounds for the instants of a stretch, from its far end: one each for the first few, one for all others."""

    edge: tuple[Vector, ...]
    rest: Vector

    def at(self, n: int) -> Vector:
        """What lies beyond the n-th instant, counted from 0 at the far end."""
        return self.edge[n] if n < len(self.edge) else self.rest


class Walk:
    """The bounds along one side, if the states there, seen from the secret, follow a stationary chain."""

    def __init__(self, chain: Chain, shape: Matrix) -> None:
        """A tilt is a multiple of `shape`; for a chain that never forgets nothing covers an endless stretch."""
        self._side = Side(Step.of(chain.transition, orders_of(chain)), Quilts(Ends(chain).right))
        self._shape = shape
        self._mixing = chain.is_irreducible() and chain.period() == 1
        self._proofs: dict[float, Proof] = {}

    def along(self, tau: float, length: int | None) -> Stretch:
        """What lies beyond every instant of a stretch of tilt τ; None: it does not end."""
        T = tau * self._shape
        steady = self._proof(tau).R if self._mixing else np.full(self._side.step.pairs, np.inf)
        if length is None or length > LONG * (2 + steady.max() / T.max()):
            return Stretch((), steady)
        R = np.zeros(self._side.step.pairs)
        edge = [R]
        quilt = steady
        while len(edge) < min(length, PATIENCE) and np.any((1 - SETTLED) * steady > R):
            n = len(edge)
            quilt = np.minimum(quilt, (n - 1) * T.max() + self._side.quilts.at(n))
            R = np.minimum(self._side.step.least(T + self._side.square(R), R), quilt)
            edge.append(R)
        return Stretch(tuple(edge), np.minimum(steady, R.max() + (length - len(edge)) * T.max()))

    def covering(self, tau: float, R: Vector, reach: int) -> Vector | None:
        """A bound for this instant, where R holds, and all later ones; no quilt may lie farther than `reach`."""
        proofs = (self._proof(tau * (1 + slack)) for slack in SLACKS)
        fitting = (proof.R for proof in proofs if proof.hops.max() <= reach)
        return next((cover for cover in fitting if np.all(cover >= R)), None)

    def _proof(self, tau: float) -> Proof:
        if tau not in self._proofs:
            self._proofs[tau] = certified([self._side], tau * self._shape)[0]
        return self._proofs[tau]


@dataclass(frozen=True, slots=True)
class Worst:
    """The largest loss in a stream, and the instant (counted from 0) that suffers it."""

    loss: float
    instant: int


def worst(tilt: Matrix, length: int, past: Stretch, future: Stretch) -> Worst:
    """Both sides put together: `past` counts from the first instant, `future` from the last."""
    last = length - 1
    near = set(range(min(len(past.edge) + 1, length)))
    near |= {last - n for n in range(min(len(future.edge) + 1, length))}
    ordered = sorted(near, key=lambda n: abs(2 * n - last))
    losses = ((float(np.max(flat(tilt) + past.at(n) + future.at(last - n))), n) for n in ordered)
    loss, instant = max(losses, key=lambda found: found[0])
    return Worst(max(loss, 0.0) * (1 + 1e-15), instant)
