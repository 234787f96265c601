"""The past of a stream whose first state has a given law (docs/theory-k.md, Theorem 5).

Seen from instant i+1 the state at i follows B_i[x,u] = μ_i(u)·P[u,x] / μ_{i+1}(x), where μ_i is the law of instant i.
These kernels change until the chain has forgotten its start. From then on the past is that of a stationary stream
whose likelihood has one more factor, w = μ_0/π of its first state. With w_i = μ_i/π, a certified bound of the
stationary chain that covers Q_i(u,v) = L_i(u,v) + log w_i(u)/w_i(v) covers Q at every later instant, as long as its
quilts do not reach beyond the first; and L is at most max log w_i − min log w_i above Q, then and later.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.quilt.endless_quilt import orders_of
from hushmq.pufferfish.quilt.finite_side import LONG, Stretch, Walk
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix, Vector
from hushmq.pufferfish.quilt.max_influence import TINY
from hushmq.pufferfish.quilt.quilt_influence import Ends
from hushmq.pufferfish.quilt.side_solver import UNIT
from hushmq.pufferfish.quilt.transport_step import Step, pairs_of

FORGOTTEN = 1e-8
"""What the start still says, in nats, when it is charged to all later instants and the walk ends."""

PATIENCE, WORK = 1000, 12_000
"""Instants that are walked one by one at most, and pairs of states times instants; 100 are walked in any case."""

QUILTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)
"""The distances of quilt nodes that are tried; all others would be as sound, and change little."""


class Past:
    """The bounds on what lies before each instant, for any tilt; laws and kernels are computed once."""

    def __init__(self, chain: Chain, shape: Matrix) -> None:
        """A tilt is a multiple of `shape`."""
        self._chain = chain
        self._shape = shape
        self._orders = orders_of(chain)
        self._ends = Ends(chain)
        self._laws = [chain.start()]
        self._supports = [self._laws[0] > 0]
        self._steps: list[Step] = []
        self._patience = min(PATIENCE, max(100, WORK // (chain.k * (chain.k - 1))))
        mixing = chain.is_irreducible() and chain.period() == 1
        self._stationary = Walk(chain.reversal(), shape) if mixing else None
        self._weights = chain.stationary() if mixing else self._laws[0]

    def along(self, tau: float, length: int | None) -> Stretch:
        """What lies before each instant, if all have tilt τ; −∞ for pairs with an impossible state.

        A chain that mixes is followed until its start is forgotten, any other to its end.
        """
        if length is None and self._stationary is None:
            raise ValueError(
                "the chain never forgets its state (it is reducible or periodic); give the stream a length"
            )
        T = tau * self._shape
        edge: list[Vector] = []
        L = np.zeros(self._chain.k * (self._chain.k - 1))
        while length is None or len(edge) < length:
            cover = self._cover(tau, L, len(edge))
            left = math.inf if length is None else length - len(edge)
            if cover is not None and (
                left > LONG * (2 + cover.max() / T.max()) or len(edge) == self._patience
            ):
                return Stretch(tuple(edge), cover)
            if len(edge) == self._patience or np.any(self._law(len(edge))[self._support(len(edge))] < TINY):
                # Every further instant adds its own tilt at most.
                return Stretch(tuple(edge), np.full_like(L, L.max() + (left - 1) * T.max()))
            edge.append(np.where(self._possible(len(edge)), L, -np.inf))
            L = self._advance(T, L, len(edge))
        return Stretch(tuple(edge), L)

    def _advance(self, T: Matrix, L: Vector, i: int) -> Vector:
        """The bound for instant i from that for instant i−1, which has tilt T."""
        D = T.copy()
        D[pairs_of(self._chain.k)] += L
        rounding = 4 * i * (self._chain.k + 2) * UNIT
        stepped = self._step(i).least(D, L) + rounding
        return np.where(
            self._possible(i), np.minimum(stepped, self._quilts(i, T.max(), stepped) + rounding), 0.0
        )

    def _law(self, i: int) -> Vector:
        while len(self._laws) <= i:
            self._laws.append(np.asarray(self._laws[-1] @ self._chain.transition))
        return self._laws[i]

    def _support(self, i: int) -> NDArray[np.bool_]:
        """The states possible at instant i, free of underflow."""
        while len(self._supports) <= i:
            self._supports.append(np.asarray((self._chain.transition > 0)[self._supports[-1]].any(axis=0)))
        return self._supports[i]

    def _possible(self, i: int) -> NDArray[np.bool_]:
        """Whether both states of each pair are possible at instant i."""
        x, y = pairs_of(self._chain.k)
        return np.asarray(self._support(i)[x] & self._support(i)[y])

    def _step(self, i: int) -> Step:
        """The step from instant i back to i−1; impossible states get any row, no one looks at it."""
        while len(self._steps) < i:
            before, now = self._law(len(self._steps)), self._support(len(self._steps) + 1)
            rows = np.where(now[:, None], before * self._chain.transition.T, before)
            self._steps.append(Step.of(rows / rows.sum(axis=1, keepdims=True), self._orders))
        return self._steps[i - 1]

    def _quilts(self, i: int, hop_cost: float, below: Vector) -> Vector:
        """The least (a−1)·hop_cost + E over some quilt nodes a instants before instant i (SWC equation 5)."""
        x, y = pairs_of(self._chain.k)
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = np.log(self._law(i)[y] / self._law(i)[x])
        best = np.full_like(below, np.inf)
        for a in QUILTS:
            if a > i or (a - 1) * hop_cost >= below.max():
                break
            with np.errstate(invalid="ignore"):
                influence = self._ends.left(a, self._support(i - a))[x, y] + odds
            best = np.fmin(best, (a - 1) * hop_cost + np.maximum(influence, 0.0))
        return best

    def _cover(self, tau: float, L: Vector, i: int) -> Vector | None:
        """A bound for instant i and all later ones, once the start is as good as forgotten."""
        if self._stationary is None or not np.all(self._support(i)) or self._law(i).min() < TINY:
            return None
        log_w = np.log(self._law(i) / self._weights)
        spread = float(np.ptp(log_w))
        if spread > FORGOTTEN and i < self._patience:
            return None
        x, y = pairs_of(self._chain.k)
        cover = self._stationary.covering(tau, L + log_w[x] - log_w[y], i + 1)
        return None if cover is None else cover + spread
