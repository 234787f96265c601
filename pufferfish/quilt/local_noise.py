"""Noise on every sample of a k-state stream: the loss of an emission matrix, and matrices with a loss of at most ε.

B[u,z] is the probability of publishing z in state u. Changing one state from v to u changes the likelihood of the
output by at most e^T(u,v), T(u,v) = max_z log B[u,z]/B[v,z]. The tilted quilt prices this tilt matrix, so states that B
hardly distinguishes cost less (docs/theory-k.md, Theorem 4). For endless stationary streams, the *prior* adversary and
the worst of a finite set of chains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hushmq.pufferfish.categorical import emission as local_emission
from hushmq.pufferfish.false_position import largest_within
from hushmq.pufferfish.quilt.endless_quilt import certify_tilt, side_solvers
from hushmq.pufferfish.quilt.laplace_scale import require_epsilon
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix
from hushmq.pufferfish.quilt.tilted_quilt import tilted_quilt_scale
from hushmq.pufferfish.quilt.transport_step import HIGHEST

PRECISION = 1e-9
"""The relative error of the search for a mixing weight; the returned weight is the smaller end."""

UNIT = 2.0**-46
"""Exceeds the relative rounding error of a tilt."""


def tilts(emission: Matrix) -> Matrix:
    """T(u,v), rounded up; ValueError if an output is possible in some states only, which reveals them."""
    B = np.asarray(emission, dtype=np.float64)
    if B.ndim != 2 or np.any(~np.isfinite(B)) or np.any(B < 0) or np.any(np.abs(B.sum(axis=1) - 1) > 1e-9):
        raise ValueError("emission must have one row of probabilities for each state, each with a sum of 1")
    B = B[:, B.max(axis=0) > 0]
    if np.any(B == 0):
        raise ValueError(
            "emission has an output that is possible in some states only; make it possible in all"
        )
    T = np.log(B[:, None, :] / B[None, :, :]).max(axis=2)
    return np.asarray(np.where(np.eye(len(B)), 0.0, T * (1 + UNIT) + UNIT), dtype=np.float64)


def loss(chains: Sequence[Chain], emission: Matrix) -> float:
    """The certified loss of publishing every sample through the emission matrix: the largest over the chains."""
    T = tilts(emission)
    if not chains:
        raise ValueError("chains is empty; give at least one chain")
    for chain in chains:
        if chain.k != len(T):
            raise ValueError(f"emission has {len(T)} rows; the chain has {chain.k} states")
        if chain.initial is not None:
            raise ValueError("a chain has an initial distribution; noise is chosen for stationary streams")
    # No bound is computed for larger tilts; the loss is at least the tilt.
    return (
        float("inf") if T.max() > HIGHEST / 3 else max(certify_tilt(side_solvers(c), T).loss for c in chains)
    )


def randomized_response(chains: Sequence[Chain], epsilon: float) -> Matrix:
    """Randomized response with the largest τ within ε: the true state is e^τ times as likely as any other output."""
    tau = 1 / tilted_quilt_scale(chains, None, epsilon).scale
    return np.array(local_emission.randomized_response(max(chain.k for chain in chains), tau))


def damped(chains: Sequence[Chain], emission: Matrix, epsilon: float) -> Matrix:
    """The mixture of the matrix with its mean row that has the largest weight s ≤ 1 with a loss of at most ε.

    B_s = s·B + (1−s)·mean row. Every ratio of two rows is monotone in s, so the loss rises in s.
    """
    require_epsilon(epsilon)
    B = np.asarray(emission, dtype=np.float64)
    flat = B.mean(axis=0)

    def mixed(share: float) -> Matrix:
        return np.asarray(share * B + (1 - share) * flat, dtype=np.float64)

    return mixed(largest_within(lambda share: loss(chains, mixed(share)), epsilon, 1.0, PRECISION))
