"""The past of a stream whose first state has a given law (docs/theory-k.md, Theorem 5).

Given X_{i+1} = x the state at i has the law B_i[x,u] = μ_i(u)·P[u,x] / μ_{i+1}(x), where μ_i is the law of X_i. These
kernels vary until the chain has forgotten its initial law. From then on the past is that of a stationary stream whose
likelihood has the additional factor w = μ_0/π of its first state. With w_i = μ_i/π, a certified bound of the stationary
chain that is at least Q_i(u,v) = L_i(u,v) + log w_i(u)/w_i(v) bounds Q at every later instant, provided that its quilt
nodes do not lie before the first instant; and L exceeds Q by at most max log w_i − min log w_i, then and later.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.quilt.endless_quilt import transport_orders
from hushmq.pufferfish.quilt.finite_side import LONG_FACTOR, SideBounds, StationarySide
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix, Vector
from hushmq.pufferfish.quilt.max_influence import TINY
from hushmq.pufferfish.quilt.quilt_influence import PowerRatios
from hushmq.pufferfish.quilt.side_solver import UNIT
from hushmq.pufferfish.quilt.transport_step import TransportStep, pairs_of

FORGOTTEN_NATS = 1e-8
"""The spread of log w_i, in nats, at which the recursion stops and adds the spread to the bound of later instants."""

MAX_INSTANTS, MAX_WORK = 1000, 12_000
"""The largest numbers of recursion steps and of pairs of states times steps; at least 100 steps are made."""

QUILT_DISTANCES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)
"""The distances of quilt nodes that are tried."""


class NonstationaryPast:
    """The bounds on the past of each instant, for any tilt; laws and kernels are computed once."""

    def __init__(self, chain: Chain, shape: Matrix) -> None:
        """Tilt matrices are multiples of `shape`."""
        self._chain = chain
        self._shape = shape
        self._orders = transport_orders(chain)
        self._powers = PowerRatios(chain)
        self._laws = [chain.start()]
        self._supports = [self._laws[0] > 0]
        self._steps: list[TransportStep] = []
        self._max_instants = min(MAX_INSTANTS, max(100, MAX_WORK // (chain.k * (chain.k - 1))))
        mixing = chain.is_irreducible() and chain.period() == 1
        self._stationary = StationarySide(chain.reversal(), shape) if mixing else None
        self._weights = chain.stationary() if mixing else self._laws[0]

    def bounds(self, tau: float, length: int | None) -> SideBounds:
        """The bounds on the past of each instant if all instants have tilt τ; −∞ for pairs with an impossible state.

        For a mixing chain the recursion stops once the initial law is forgotten, otherwise at the end of the stream.
        """
        if length is None and self._stationary is None:
            raise ValueError(
                "the chain never forgets its state (it is reducible or periodic); give the stream a length"
            )
        T = tau * self._shape
        edge: list[Vector] = []
        L = np.zeros(self._chain.k * (self._chain.k - 1))
        while length is None or len(edge) < length:
            cover = self._covering_bound(tau, L, len(edge))
            remaining = math.inf if length is None else length - len(edge)
            if cover is not None and (
                remaining > LONG_FACTOR * (2 + cover.max() / T.max()) or len(edge) == self._max_instants
            ):
                return SideBounds(tuple(edge), cover)
            if len(edge) == self._max_instants or np.any(
                self._law(len(edge))[self._support(len(edge))] < TINY
            ):
                # Every further instant adds at most its tilt.
                return SideBounds(tuple(edge), np.full_like(L, L.max() + (remaining - 1) * T.max()))
            edge.append(np.where(self._possible(len(edge)), L, -np.inf))
            L = self._advance(T, L, len(edge))
        return SideBounds(tuple(edge), L)

    def _advance(self, T: Matrix, L: Vector, i: int) -> Vector:
        """The bound for instant i from that for instant i−1, which has tilt T."""
        D = T.copy()
        D[pairs_of(self._chain.k)] += L
        rounding = 4 * i * (self._chain.k + 2) * UNIT
        stepped = self._step(i).least_bound(D, L) + rounding
        return np.where(
            self._possible(i), np.minimum(stepped, self._quilts(i, T.max(), stepped) + rounding), 0.0
        )

    def _law(self, i: int) -> Vector:
        while len(self._laws) <= i:
            self._laws.append(np.asarray(self._laws[-1] @ self._chain.transition))
        return self._laws[i]

    def _support(self, i: int) -> NDArray[np.bool_]:
        """The states possible at instant i, from the supports alone so that no underflow occurs."""
        while len(self._supports) <= i:
            self._supports.append(np.asarray((self._chain.transition > 0)[self._supports[-1]].any(axis=0)))
        return self._supports[i]

    def _possible(self, i: int) -> NDArray[np.bool_]:
        """Whether both states of each pair are possible at instant i."""
        x, y = pairs_of(self._chain.k)
        return np.asarray(self._support(i)[x] & self._support(i)[y])

    def _step(self, i: int) -> TransportStep:
        """The transport step from instant i back to i−1; rows of impossible states are arbitrary and unused."""
        while len(self._steps) < i:
            before, now = self._law(len(self._steps)), self._support(len(self._steps) + 1)
            rows = np.where(now[:, None], before * self._chain.transition.T, before)
            self._steps.append(TransportStep.of(rows / rows.sum(axis=1, keepdims=True), self._orders))
        return self._steps[i - 1]

    def _quilts(self, i: int, hop_cost: float, below: Vector) -> Vector:
        """The least (a−1)·hop_cost + E over the quilt nodes a instants before instant i (SWC equation 5)."""
        x, y = pairs_of(self._chain.k)
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = np.log(self._law(i)[y] / self._law(i)[x])
        best = np.full_like(below, np.inf)
        for a in QUILT_DISTANCES:
            if a > i or (a - 1) * hop_cost >= below.max():
                break
            with np.errstate(invalid="ignore"):
                influence = self._powers.left(a, self._support(i - a))[x, y] + odds
            best = np.fmin(best, (a - 1) * hop_cost + np.maximum(influence, 0.0))
        return best

    def _covering_bound(self, tau: float, L: Vector, i: int) -> Vector | None:
        """A bound for instant i and all later ones, once the initial law is forgotten; otherwise None."""
        if self._stationary is None or not np.all(self._support(i)) or self._law(i).min() < TINY:
            return None
        log_w = np.log(self._law(i) / self._weights)
        spread = float(np.ptp(log_w))
        if spread > FORGOTTEN_NATS and i < self._max_instants:
            return None
        x, y = pairs_of(self._chain.k)
        cover = self._stationary.covering_bound(tau, L + log_w[x] - log_w[y], i + 1)
        return None if cover is None else cover + spread
