"""How a change in the bounds of some pairs moves the bounds of all: the derivative of one step, and its inverse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushmq.pufferfish.quilt.markov_chain import Matrix, Vector
from hushmq.pufferfish.quilt.transport_step import Index

DENSE = 600
"""Up to this many pairs a direct solve is faster than an iterative one."""


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The matrix J in sparse form: pair n moves by weight[s, n] times the move of pair target[s, n].

    A target of n, the number of pairs, is the diagonal of R, which never moves.
    """

    weight: Matrix
    target: Index

    def apply(self, moves: Vector) -> Vector:
        """J·moves."""
        moved = np.einsum("sn,sn->n", self.weight, np.append(moves, 0.0)[self.target])
        return np.asarray(moved, dtype=np.float64)

    def settle(self, push: Vector, start: Vector | None = None) -> Vector:
        """The solution of moves = push + J·moves; not a number where there is none.

        Beyond a few hundred pairs by BiCGSTAB, to four digits, which is all a Newton step can use.
        """
        n = len(push)
        if n <= DENSE:
            dense = np.zeros((n, n + 1))
            np.add.at(dense, (np.broadcast_to(np.arange(n), self.target.shape), self.target), self.weight)
            try:
                return np.asarray(np.linalg.solve(np.eye(n) - dense[:, :n], push), dtype=np.float64)
            except np.linalg.LinAlgError:
                return np.full(n, np.nan)
        moves = np.zeros(n) if start is None else start
        residual = push - moves + self.apply(moves)
        shadow = residual
        rho = alpha = omega = 1.0
        direction = image = np.zeros(n)
        enough = 1e-4 * np.linalg.norm(push)
        for _ in range(200):
            if np.linalg.norm(residual) <= enough:
                return moves
            rho, before = float(shadow @ residual), rho
            direction = residual + (rho / before) * (alpha / omega) * (direction - omega * image)
            image = direction - self.apply(direction)
            alpha = rho / float(shadow @ image)
            half = residual - alpha * image
            smooth = half - self.apply(half)
            omega = float(smooth @ half) / float(smooth @ smooth)
            moves = moves + alpha * direction + omega * half
            residual = half - omega * smooth
        return np.full(n, np.nan)
