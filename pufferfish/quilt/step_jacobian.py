"""The Jacobian J of one step R → F(R), and the solution of linear systems with I − J."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushmq.pufferfish.quilt.markov_chain import Matrix, Vector
from hushmq.pufferfish.quilt.transport_step import Index

DENSE = 600
"""Up to this many pairs a direct solve is faster than an iterative one."""


@dataclass(frozen=True, eq=False)
class StepJacobian:
    """J in sparse form: (J·v)[n] = Σ_s weight[s, n]·v[target[s, n]].

    A target equal to the number of pairs stands for the diagonal of R, which is constant.
    """

    weight: Matrix
    target: Index

    def apply(self, moves: Vector) -> Vector:
        """J·moves."""
        moved = np.einsum("sn,sn->n", self.weight, np.append(moves, 0.0)[self.target])
        return np.asarray(moved, dtype=np.float64)

    def solve(self, push: Vector, start: Vector | None = None) -> Vector:
        """The solution v of v = source + J·v; NaN if the solver fails.

        Up to `DENSE` pairs by elimination; beyond, by BiCGSTAB to four digits, which suffices for a Newton step.
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
