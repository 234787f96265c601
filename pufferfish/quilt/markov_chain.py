"""A finite Markov chain with states 0..k−1.

A `Chain` is an immutable value: its arrays are read-only and its rows sum to one up to rounding. Properties that a
chain does not have (a reversal if it is reducible, an eigengap if it is periodic) raise a `ValueError` that says why.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
States = NDArray[np.int64]

SUM_TOLERANCE = 1e-6
"""A row whose sum is this close to one is rescaled; any other is refused."""


def distribution(values: ArrayLike, *, name: str, k: int) -> Vector:
    """A read-only probability vector of length k, rescaled to sum to one; ValueError naming `name` otherwise."""
    vector = np.array(values, dtype=np.float64)
    if vector.shape != (k,):
        raise ValueError(f"{name} has shape {vector.shape}; it needs one probability for each of {k} states")
    if not np.all(np.isfinite(vector)):
        raise ValueError(f"{name} contains a value that is not a finite number; use probabilities")
    if np.any(vector < 0):
        raise ValueError(f"{name} contains {vector.min():g}; probabilities are never negative")
    total = math.fsum(vector.tolist())
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(f"{name} sums to {total:.9g}; it must sum to 1")
    vector /= total
    vector.setflags(write=False)
    return vector


def transition_matrix(values: ArrayLike, *, name: str = "transition") -> Matrix:
    """A read-only stochastic matrix; ValueError naming the invalid row otherwise."""
    try:
        matrix = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a list of equally long rows of numbers") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} has shape {matrix.shape}; it must be square, one row and column per state")
    if matrix.shape[0] < 2:
        raise ValueError(f"{name} has {matrix.shape[0]} states; a chain with a secret has at least 2")
    k = matrix.shape[0]
    matrix = np.array([distribution(row, name=f"{name} row {i}", k=k) for i, row in enumerate(matrix)])
    matrix.setflags(write=False)
    return matrix


@dataclass(frozen=True, eq=False)
class Chain:
    """A transition matrix and the distribution of the first state; `initial=None` means stationary."""

    transition: Matrix
    initial: Vector | None = None

    def __init__(self, transition: ArrayLike, initial: ArrayLike | None = None) -> None:
        """Copies the arrays; ValueError naming the invalid row or vector and what it must be."""
        P = transition_matrix(transition)
        object.__setattr__(self, "transition", P)
        start = None if initial is None else distribution(initial, name="initial", k=len(P))
        object.__setattr__(self, "initial", start)

    @property
    def k(self) -> int:
        """The number of states."""
        return len(self.transition)

    def is_irreducible(self) -> bool:
        """Whether every state is reachable from every other."""
        return bool(np.all(_reachable(self.transition)))

    def period(self) -> int:
        """The greatest common divisor of all cycle lengths (1: aperiodic) of an irreducible chain."""
        self._require_irreducible("a period")
        edges = self.transition > 0
        level = np.full(self.k, -1)
        level[0] = 0
        frontier = [0]
        while frontier:
            state = frontier.pop()
            for after in np.flatnonzero(edges[state] & (level < 0)):
                level[after] = level[state] + 1
                frontier.append(int(after))
        cycles = np.abs(level[:, None] + 1 - level[None, :])[edges]
        return int(np.gcd.reduce(cycles))

    def stationary(self) -> Vector:
        """The unique π = πP of an irreducible chain.

        The algorithm of Grassmann, Taksar and Heyman does not subtract, so every entry, however small, has a relative
        error of a few k unit roundoffs.
        """
        self._require_irreducible("a stationary distribution with every state possible")
        A = self.transition.copy()
        for n in range(self.k - 1, 0, -1):
            A[:n, n] /= A[n, :n].sum()
            A[:n, :n] += np.outer(A[:n, n], A[n, :n])
        weights = np.ones(self.k)
        for n in range(1, self.k):
            weights[n] = weights[:n] @ A[:n, n]
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    def start(self) -> Vector:
        """The distribution of the first state."""
        return self.stationary() if self.initial is None else self.initial

    def reversal(self) -> Chain:
        """The stationary chain run backwards: P*[x,y] = π[y]·P[y,x]/π[x] (SWC Definition 4.7)."""
        weights = self.stationary()
        reverse = weights[None, :] * self.transition.T / weights[:, None]
        return Chain(reverse / reverse.sum(axis=1, keepdims=True))

    def is_reversible(self, tolerance: float = 1e-12) -> bool:
        """Whether detailed balance holds: π[x]·P[x,y] = π[y]·P[y,x] within `tolerance`."""
        flow = self.stationary()[:, None] * self.transition
        return bool(np.max(np.abs(flow - flow.T)) <= tolerance)

    def power(self, h: int) -> Matrix:
        """P^h, the transition over h instants."""
        if h < 0:
            raise ValueError(f"h is {h}; a power of a chain needs h of at least 0")
        return np.linalg.matrix_power(self.transition, h)

    def eigengap(self) -> float:
        """1 − the second eigenvalue of P·P* (SWC equation 7); 0 if two rows of P* have disjoint supports.

        P·P* is similar to S·Sᵀ with S = diag(√π)·P·diag(1/√π): its eigenvalues are squared singular values.
        SWC skip every eigenvalue of modulus 1, but their Lemma 4.8 requires that only one of them is skipped.
        """
        self._require_aperiodic()
        root = np.sqrt(self.stationary())
        singular = np.linalg.svd(root[:, None] * self.transition / root[None, :], compute_uv=False)
        return _gap(singular**2)

    def reversible_eigengap(self) -> float:
        """1 - the second largest |eigenvalue| of P, for a reversible chain (SWC equation 14)."""
        self._require_aperiodic()
        if not self.is_reversible():
            raise ValueError("the chain is not reversible; use eigengap, which needs no reversibility")
        root = np.sqrt(self.stationary())
        symmetric = root[:, None] * self.transition / root[None, :]
        return _gap(np.linalg.eigvalsh((symmetric + symmetric.T) / 2))

    def sample(self, length: int, rng: np.random.Generator) -> States:
        """`length` consecutive states."""
        if length < 0:
            raise ValueError(f"length is {length}; it must be at least 0")
        uniforms = rng.random(length).tolist()
        rows = _cumulative(self.transition)
        (row,) = _cumulative(self.start()[None, :])
        path = []
        for u in uniforms:
            state = bisect_right(row, u)
            path.append(state)
            row = rows[state]
        return np.array(path, dtype=np.int64)

    def _require_irreducible(self, what: str) -> None:
        reach = _reachable(self.transition)
        if not np.all(reach):
            x, y = np.argwhere(~reach)[0]
            raise ValueError(
                f"the chain is reducible (state {x} never leads to state {y}); {what} does not exist"
            )

    def _require_aperiodic(self) -> None:
        period = self.period()
        if period > 1:
            raise ValueError(f"the chain has period {period}; an eigengap needs an aperiodic chain")


def _reachable(P: Matrix) -> NDArray[np.bool_]:
    """Which states are reachable from which, in zero or more steps."""
    reach = (P > 0) | np.eye(len(P), dtype=bool)
    for _ in range(len(P).bit_length()):
        reach = (reach.astype(np.float64) @ reach) > 0
    return reach


def _gap(eigenvalues: NDArray[np.floating]) -> float:
    """1 − the second largest modulus; the largest is 1, for the constant function."""
    return max(0.0, float(1 - np.sort(np.abs(eigenvalues))[-2]))


def _cumulative(P: Matrix) -> list[list[float]]:
    """Cumulative sums of each row, set to exactly one from the last possible state on."""
    sums = np.cumsum(P, axis=1)
    last = P.shape[1] - 1 - np.argmax(P[:, ::-1] > 0, axis=1)
    for row, end in zip(sums, last, strict=True):
        row[end:] = 1.0
    return [row.tolist() for row in sums]
