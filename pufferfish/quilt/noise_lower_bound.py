"""The lower bound on the Laplace noise that any method must add to a 1-Lipschitz query (docs/theory-k.md, Theorem 6).

Consider the count of the instants whose state lies in a set S, with Laplace noise of scale 1/τ. An output above every
possible count multiplies the weight of each path by e^τ for every instant in S. Under this weight the log odds of x
against y at one instant change by exactly h(x) − h(y),

    h = τ·[·∈S] + log A + log C,    C ∝ P(m∘C), A the same for the past, m = e^τ on S and 1 off it.

This loss is attained, so no method can add less noise than keeps it within ε, for any S. A histogram contains every
such count. For chains that tend to alternate, the count of S at even and of its complement at odd distances has a
larger loss; that query is 1-Lipschitz too, but not part of a histogram.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.false_position import largest_within
from hushmq.pufferfish.quilt.endless_quilt import slowest_mode
from hushmq.pufferfish.quilt.laplace_scale import LaplaceScale, require_epsilon, require_length
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix, Vector

Sets = NDArray[np.bool_]
"""Sets of states, one per row."""

EXHAUSTIVE_STATES = 10
"""Up to this many states every set is tried; beyond, threshold sets of two orders, improved by single flips."""

COUNTED_INSTANTS = 400
"""The instants counted on either side of the secret, if the stream is finite or has a given initial law."""

NEAR_STOPS, ENDLESS_SPAN = 3, 2 * COUNTED_INSTANTS
"""Counts that stop at most NEAR_STOPS instants away are tried too; ENDLESS_SPAN stands for an endless side."""

COMPARED_INSTANTS, CANDIDATE_SETS = 256, 8
"""Large sets are compared over COMPARED_INSTANTS on either side; the CANDIDATE_SETS best are evaluated fully."""

PRECISION = 1e-10
"""The relative error of the search."""


def noise_lower_bound(chains: Iterable[Chain], length: int | None, epsilon: float) -> LaplaceScale:
    """The largest scale below which some count on some of the chains has a loss above ε."""
    require_epsilon(epsilon)
    require_length(length)
    # Rounded down: the τ found may be below the one with loss ε, by the precision of the search.
    scales = [(1 - PRECISION) / _largest_tau(CountLosses(chain, length), epsilon) for chain in chains]
    if not scales:
        raise ValueError("chains is empty; give at least one chain")
    return LaplaceScale("limit", max(scales))


class CountLosses:
    """The attained losses of counts on one chain."""

    def __init__(self, chain: Chain, length: int | None = None) -> None:
        """`length=None` is an endless stream; a chain without an initial law is stationary."""
        self._chain = chain
        self._length = length

    def of(self, tau: float, sets: Sets) -> Vector:
        """For each set, the larger of the losses of counting it and of counting it and its complement alternately."""
        return np.maximum(self._loss(tau, sets, sets), self._loss(tau, sets, ~sets))

    def of_single_set(self, one: Sets, tau: float) -> float:
        """The loss of a single set, given as one row."""
        return float(self.of(tau, one)[0])

    def worst_set(self, tau: float) -> Sets:
        """The set with the largest loss found, as one row."""
        k = self._chain.k
        if k <= EXHAUSTIVE_STATES:
            sets = (np.arange(1, 2**k - 1)[:, None] >> np.arange(k) & 1).astype(bool)
            return sets[[np.argmax(self.of(tau, sets))]]
        orders = (np.arange(k), np.argsort(slowest_mode(self._chain)))
        below = np.array([np.argsort(order) < size for order in orders for size in range(1, k)])
        sets = np.concatenate([below, ~below])
        best, loss = sets[:1], 0.0
        while True:
            likely = sets[np.argsort(-self._loss_nearby(tau, sets))[:CANDIDATE_SETS]]
            losses = self.of(tau, likely)
            if losses.max() <= loss * (1 + 1e-9):
                return best
            best, loss = likely[[np.argmax(losses)]], float(losses.max())
            flipped = best ^ np.eye(k, dtype=bool)
            sets = flipped[flipped.any(axis=1) & ~flipped.all(axis=1)]

    def _loss_nearby(self, tau: float, sets: Sets) -> Vector:
        """The loss of counting a set at nearby instants only: attained too, and sufficient to compare sets."""
        weights = (np.exp(tau * sets), np.exp(tau * sets))
        sides = (self._chain.reversal().transition, self._chain.transition)
        moved = tau * sets + sum(_partial_products(P, weights, COMPARED_INSTANTS)[-1] for P in sides)
        return np.asarray(np.ptp(moved, axis=1), dtype=np.float64)

    def _loss(self, tau: float, here: Sets, next_to_it: Sets) -> Vector:
        """The loss of counting `here` at the secret and every second instant, `next_to_it` at the others.

        The count stops a few instants from the secret, or at the end of the stream, on either side: if states
        alternate, a shorter count can have the larger loss.
        """
        weights = (np.exp(tau * here), np.exp(tau * next_to_it))
        P = self._chain.transition
        if self._chain.initial is not None:
            futures = _partial_products(
                P,
                weights,
                COUNTED_INSTANTS if self._length is None else min(self._length - 1, COUNTED_INSTANTS),
            )
            return self._from_start(tau, here, weights, futures)
        pasts, futures = (
            [tau * here + worth for worth in self._side(self._chain.reversal().transition, weights)],
            self._side(P, weights),
        )
        rest = ENDLESS_SPAN if self._length is None else self._length - 1
        near = range(min(NEAR_STOPS, rest) + 1)
        spans = [(a, b) for a in near for b in near if a + b <= rest]
        spans += (
            [(a, rest - a) for a in near] + [(rest - b, b) for b in near] + [(rest // 2, rest - rest // 2)]
        )
        worst = np.zeros(len(here))
        for a, b in spans:
            moved = pasts[min(a, len(pasts) - 1)] + futures[min(b, len(futures) - 1)]
            worst = np.maximum(worst, np.ptp(moved, axis=1))
        return worst

    def _side(self, P: Matrix, weights: tuple[Matrix, Matrix]) -> list[Matrix]:
        """The log-weights of 0, 1, … instants of a side, up to its end or until they are constant."""
        if self._length is None:
            return [*_partial_products(P, weights, NEAR_STOPS), _perron_vector(P, weights)]
        return _partial_products(P, weights, min(self._length - 1, COUNTED_INSTANTS))

    def _from_start(
        self, tau: float, here: Sets, weights: tuple[Matrix, Matrix], futures: list[Matrix]
    ) -> Vector:
        """The largest loss among the first instants of a chain with a given initial law.

        The weight of an instant depends on the parity of its distance from the secret, so the past has two recursions:
        for a secret at an even and at an odd distance from the first instant.
        """
        worst = np.zeros(len(here))
        law = self._chain.start()
        messages = [np.broadcast_to(law, here.shape), np.broadcast_to(law, here.shape)]
        for i in range(COUNTED_INSTANTS if self._length is None else min(self._length, COUNTED_INSTANTS)):
            possible = law > 0
            rest = len(futures) - 1 if self._length is None else min(self._length - 1 - i, len(futures) - 1)
            with np.errstate(divide="ignore", invalid="ignore"):
                moved = tau * here + np.log(messages[i % 2] / law) + futures[rest]
            widest = np.maximum(worst, np.ptp(moved[:, possible], axis=1))
            if i > COUNTED_INSTANTS // 4 and np.all(widest <= worst * (1 + 1e-12)):
                break
            worst = widest
            messages = [
                _normalised((messages[n] * weights[(i + n) % 2]) @ self._chain.transition) for n in (0, 1)
            ]
            law = law @ self._chain.transition
        return worst


def _perron_vector(P: Matrix, weights: tuple[Matrix, Matrix]) -> Matrix:
    """The log-weights of an endless side given each state: the Perron vector of two steps."""
    here, next_to_it = (P * weight[:, None, :] for weight in weights)
    values, vectors = np.linalg.eig(next_to_it @ here)
    largest = np.argmax(values.real, axis=1)
    perron = np.abs(vectors[np.arange(len(largest)), :, largest])
    return np.asarray(np.log(perron), dtype=np.float64)


def _partial_products(P: Matrix, weights: tuple[Matrix, Matrix], most: int) -> list[Matrix]:
    """The log-weights of 0, 1, …, `most` instants of a side, the nearest being next to the secret."""
    worth = [np.ones_like(weights[0]), np.ones_like(weights[0])]
    logs = [np.zeros_like(weights[0])]
    for _ in range(most):
        worth = [_normalised((weights[nearest] * worth[1 - nearest]) @ P.T) for nearest in (0, 1)]
        logs.append(np.log(worth[1]))
        if np.abs(logs[-1] - logs[-2]).max() < 1e-15:
            break
    return logs


def _normalised(rows: Matrix) -> Matrix:
    """Rows rescaled to a maximum of 1, so that repeated products neither underflow nor overflow."""
    return np.asarray(rows / rows.max(axis=1, keepdims=True), dtype=np.float64)


def _largest_tau(losses: CountLosses, epsilon: float) -> float:
    """The τ at which the worst set has loss ε: solve for one set, search a worse one at that τ, repeat."""
    tau = epsilon
    worst = losses.worst_set(tau / 2)
    while losses.of(tau, worst)[0] > epsilon * (1 + 1e-9):
        tau = largest_within(partial(losses.of_single_set, worst), epsilon, tau, PRECISION)
        worst = losses.worst_set(tau)
    return tau
