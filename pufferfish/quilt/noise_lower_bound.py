"""The limit: how much noise any method must add to a 1-Lipschitz query (docs/theory-k.md, Theorem 6).

Count the instants whose state lies in a set S, with Laplace noise of scale 1/τ. An output far above every possible
count weighs each path by e^τ for every instant it spends in S. Under that weight the log odds of x against y at one
instant move by exactly h(x) − h(y),

    h = τ·[·∈S] + log A + log C,    C ∝ P(m∘C), A the same for the past, m = e^τ on S and 1 off it.

That loss is real, so no method can add less noise than keeps it within ε, whatever S is. A histogram contains every
such count. For chains that tend to alternate, S and its complement take turns; that is 1-Lipschitz too, though no
histogram.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.quilt.endless_quilt import slowest_mode
from hushmq.pufferfish.quilt.false_position import largest_within
from hushmq.pufferfish.quilt.laplace_scale import Scale, require_epsilon, require_length
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix, Vector

Sets = NDArray[np.bool_]
"""Sets of states, one per row."""

EVERY_SET = 10
"""Up to this many states every set is tried; beyond, thresholds of two orders and what single flips improve."""

REACH = 400
"""How many instants either side of the secret are counted, where the stream has an end or a given start."""

CLOSE, FAR = 3, 2 * REACH
"""Counts that stop so few instants from the secret are tried as well; so many stand for an endless side."""

NEARBY, LIKELY = 256, 8
"""Sets of many states are first compared by this many instants either side; so many of the best go further."""

PRECISION = 1e-10
"""The relative error of the search."""


def limit(chains: Iterable[Chain], length: int | None, epsilon: float) -> Scale:
    """The largest scale below which some count over some of the chains would exceed ε."""
    require_epsilon(epsilon)
    require_length(length)
    # Rounded down: what is found may be below the τ that meets ε, by the search's precision.
    scales = [(1 - PRECISION) / _largest_tau(Losses(chain, length), epsilon) for chain in chains]
    if not scales:
        raise ValueError("chains is empty; give at least one chain")
    return Scale("limit", max(scales))


class Losses:
    """The losses that counts over a chain really have."""

    def __init__(self, chain: Chain, length: int | None = None) -> None:
        """`length=None` is a stream without end; a chain without a given start is stationary."""
        self._chain = chain
        self._length = length

    def of(self, tau: float, sets: Sets) -> Vector:
        """For each set the loss of counting it, or of counting it and its complement by turns if that is more."""
        return np.maximum(self._loss(tau, sets, sets), self._loss(tau, sets, ~sets))

    def of_one(self, one: Sets, tau: float) -> float:
        """The same for a single set."""
        return float(self.of(tau, one)[0])

    def worst_set(self, tau: float) -> Sets:
        """The set (as one row) with the largest loss that the search finds."""
        k = self._chain.k
        if k <= EVERY_SET:
            sets = (np.arange(1, 2**k - 1)[:, None] >> np.arange(k) & 1).astype(bool)
            return sets[[np.argmax(self.of(tau, sets))]]
        orders = (np.arange(k), np.argsort(slowest_mode(self._chain)))
        below = np.array([np.argsort(order) < size for order in orders for size in range(1, k)])
        sets = np.concatenate([below, ~below])
        best, loss = sets[:1], 0.0
        while True:
            likely = sets[np.argsort(-self._nearby(tau, sets))[:LIKELY]]
            losses = self.of(tau, likely)
            if losses.max() <= loss * (1 + 1e-9):
                return best
            best, loss = likely[[np.argmax(losses)]], float(losses.max())
            flipped = best ^ np.eye(k, dtype=bool)
            sets = flipped[flipped.any(axis=1) & ~flipped.all(axis=1)]

    def _nearby(self, tau: float, sets: Sets) -> Vector:
        """The loss of counting a set over the nearby instants only: real as well, and enough to compare sets."""
        weights = (np.exp(tau * sets), np.exp(tau * sets))
        sides = (self._chain.reversal().transition, self._chain.transition)
        moved = tau * sets + sum(_walk(P, weights, NEARBY)[-1] for P in sides)
        return np.asarray(np.ptp(moved, axis=1), dtype=np.float64)

    def _loss(self, tau: float, here: Sets, next_to_it: Sets) -> Vector:
        """The loss of counting `here` at the secret and every second instant, `next_to_it` at the others.

        Counting stops a few instants from the secret, or as far away as the stream goes, on either side: where
        states alternate, less can say more.
        """
        weights = (np.exp(tau * here), np.exp(tau * next_to_it))
        P = self._chain.transition
        if self._chain.initial is not None:
            futures = _walk(P, weights, REACH if self._length is None else min(self._length - 1, REACH))
            return self._from_start(tau, here, weights, futures)
        pasts, futures = (
            [tau * here + worth for worth in self._side(self._chain.reversal().transition, weights)],
            self._side(P, weights),
        )
        rest = FAR if self._length is None else self._length - 1
        near = range(min(CLOSE, rest) + 1)
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
        """What 0, 1, … instants of a side are worth, up to where it ends or no longer matters."""
        if self._length is None:
            return [*_walk(P, weights, CLOSE), _endless(P, weights)]
        return _walk(P, weights, min(self._length - 1, REACH))

    def _from_start(
        self, tau: float, here: Sets, weights: tuple[Matrix, Matrix], futures: list[Matrix]
    ) -> Vector:
        """The largest loss among the first instants of a chain with a given start.

        The weight of an instant depends on its distance from the secret, so that there are two ways to count the
        past: the secret is at an even or at an odd distance from the first instant.
        """
        worst = np.zeros(len(here))
        law = self._chain.start()
        messages = [np.broadcast_to(law, here.shape), np.broadcast_to(law, here.shape)]
        for i in range(REACH if self._length is None else min(self._length, REACH)):
            possible = law > 0
            rest = len(futures) - 1 if self._length is None else min(self._length - 1 - i, len(futures) - 1)
            with np.errstate(divide="ignore", invalid="ignore"):
                moved = tau * here + np.log(messages[i % 2] / law) + futures[rest]
            widest = np.maximum(worst, np.ptp(moved[:, possible], axis=1))
            if i > REACH // 4 and np.all(widest <= worst * (1 + 1e-12)):
                break
            worst = widest
            messages = [
                _normal((messages[n] * weights[(i + n) % 2]) @ self._chain.transition) for n in (0, 1)
            ]
            law = law @ self._chain.transition
        return worst


def _endless(P: Matrix, weights: tuple[Matrix, Matrix]) -> Matrix:
    """The log of what an endless side is worth from each state: the Perron vector of two instants."""
    here, next_to_it = (P * weight[:, None, :] for weight in weights)
    values, vectors = np.linalg.eig(next_to_it @ here)
    largest = np.argmax(values.real, axis=1)
    perron = np.abs(vectors[np.arange(len(largest)), :, largest])
    return np.asarray(np.log(perron), dtype=np.float64)


def _walk(P: Matrix, weights: tuple[Matrix, Matrix], most: int) -> list[Matrix]:
    """The log of what 0, 1, …, most instants of a side are worth, the nearest counted as next to the secret."""
    worth = [np.ones_like(weights[0]), np.ones_like(weights[0])]
    logs = [np.zeros_like(weights[0])]
    for _ in range(most):
        worth = [_normal((weights[nearest] * worth[1 - nearest]) @ P.T) for nearest in (0, 1)]
        logs.append(np.log(worth[1]))
        if np.abs(logs[-1] - logs[-2]).max() < 1e-15:
            break
    return logs


def _normal(rows: Matrix) -> Matrix:
    """Rows rescaled so that repeated products neither vanish nor overflow."""
    return np.asarray(rows / rows.max(axis=1, keepdims=True), dtype=np.float64)


def _largest_tau(losses: Losses, epsilon: float) -> float:
    """The τ at which the worst set reaches ε: solve for a set, look for a worse one there, until there is none."""
    tau = epsilon
    worst = losses.worst_set(tau / 2)
    while losses.of(tau, worst)[0] > epsilon * (1 + 1e-9):
        tau = largest_within(partial(losses.of_one, worst), epsilon, tau, PRECISION)
        worst = losses.worst_set(tau)
    return tau
