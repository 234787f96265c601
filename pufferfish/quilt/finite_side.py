"""One side of a stream of finite length and constant tilt (docs/theory-k.md, Theorem 5).

The recursion runs from the far end towards the secret: if R bounds the side beyond an instant with tilt matrix T, one
transport step from D = T + R bounds the side beyond the next instant. A bound certified for the endless side holds at
every instant, so the recursion stops as soon as it reaches that bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushmq.pufferfish.quilt.endless_quilt import certified_sides, over_pairs, transport_orders
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix, Vector
from hushmq.pufferfish.quilt.quilt_influence import PowerRatios
from hushmq.pufferfish.quilt.side_solver import CertifiedSide, QuiltBounds, SideSolver
from hushmq.pufferfish.quilt.transport_step import TransportStep

TILT_MARGINS = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""Relative tilt margins: R may exceed the endless bound of its tilt and be below that of a slightly larger tilt."""

MAX_INSTANTS = 128
"""The largest number of recursion steps; each further instant adds its full tilt, up to the endless bound."""

LONG_FACTOR = 8
"""A side counts as endless if it is this many times longer than it takes full tilts to reach the endless bound."""

CONVERGED = 1e-9
"""The relative distance to the endless bound at which the recursion stops."""


@dataclass(frozen=True, eq=False)
class SideBounds:
    """Bounds on one side of every instant, counted from the far end: one each for the first few, one for the rest."""

    edge: tuple[Vector, ...]
    rest: Vector

    def at(self, n: int) -> Vector:
        """The bound on the side beyond instant n, counted from 0 at the far end."""
        return self.edge[n] if n < len(self.edge) else self.rest


class StationarySide:
    """The bounds on one side whose states, counted away from the secret, follow a stationary chain."""

    def __init__(self, chain: Chain, shape: Matrix) -> None:
        """Tilt matrices are multiples of `shape`; a reducible or periodic chain has no endless bound."""
        self._side = SideSolver(
            TransportStep.of(chain.transition, transport_orders(chain)), QuiltBounds(PowerRatios(chain).right)
        )
        self._shape = shape
        self._mixing = chain.is_irreducible() and chain.period() == 1
        self._certificates: dict[float, CertifiedSide] = {}

    def bounds(self, tau: float, length: int | None) -> SideBounds:
        """The bounds for a side of `length` instants of tilt τ; None for an endless one."""
        T = tau * self._shape
        endless = self._certificate(tau).R if self._mixing else np.full(self._side.step.pairs, np.inf)
        if length is None or length > LONG_FACTOR * (2 + endless.max() / T.max()):
            return SideBounds((), endless)
        R = np.zeros(self._side.step.pairs)
        edge = [R]
        quilt = endless
        while len(edge) < min(length, MAX_INSTANTS) and np.any((1 - CONVERGED) * endless > R):
            n = len(edge)
            quilt = np.minimum(quilt, (n - 1) * T.max() + self._side.quilts.at(n))
            R = np.minimum(self._side.step.least_bound(T + self._side.as_matrix(R), R), quilt)
            edge.append(R)
        return SideBounds(tuple(edge), np.minimum(endless, R.max() + (length - len(edge)) * T.max()))

    def covering_bound(self, tau: float, R: Vector, farthest_quilt: int) -> Vector | None:
        """A certified bound ≥ R, valid for all later instants, with no quilt node beyond `farthest_quilt`; or None."""
        certificates = (self._certificate(tau * (1 + slack)) for slack in TILT_MARGINS)
        fitting = (certificate.R for certificate in certificates if certificate.hops.max() <= farthest_quilt)
        return next((cover for cover in fitting if np.all(cover >= R)), None)

    def _certificate(self, tau: float) -> CertifiedSide:
        if tau not in self._certificates:
            self._certificates[tau] = certified_sides([self._side], tau * self._shape)[0]
        return self._certificates[tau]


@dataclass(frozen=True, slots=True)
class WorstInstant:
    """The largest loss in a stream, and the instant, counted from 0, that attains it."""

    loss: float
    instant: int


def worst_instant(tilt: Matrix, length: int, past: SideBounds, future: SideBounds) -> WorstInstant:
    """The largest loss from the bounds on both sides; `past` counts from the first instant, `future` from the last."""
    last = length - 1
    near = set(range(min(len(past.edge) + 1, length)))
    near |= {last - n for n in range(min(len(future.edge) + 1, length))}
    ordered = sorted(near, key=lambda n: abs(2 * n - last))
    losses = ((float(np.max(over_pairs(tilt) + past.at(n) + future.at(last - n))), n) for n in ordered)
    loss, instant = max(losses, key=lambda found: found[0])
    return WorstInstant(max(loss, 0.0) * (1 + 1e-15), instant)
