"""Noise on every sample of a stream of k states: what an emission matrix loses, and matrices that keep ε.

B[u,z] is the probability to publish z in state u. Changing one state from v to u changes the likelihood of what is
published by at most e^T(u,v), T(u,v) = max_z log B[u,z]/B[v,z], and the tilted quilt prices that matrix as it is:
states that B hardly tells apart cost less (docs/theory-k.md, Theorem 4). Endless stationary streams, the *prior*
adversary, the worst of a finite set of chains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hushmq.pufferfish.categorical import emission as local_emission
from hushmq.pufferfish.quilt.endless_quilt import bounded_loss, sides_of
from hushmq.pufferfish.quilt.false_position import largest_within
from hushmq.pufferfish.quilt.laplace_scale import require_epsilon
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix
from hushmq.pufferfish.quilt.tilted_quilt import tilted
from hushmq.pufferfish.quilt.transport_step import HIGHEST

PRECISION = 1e-9
"""The relative error of the search for a matrix, on the safe side."""

UNIT = 2.0**-46
"""More than the few rounded operations of a tilt can lose."""


def tilts(emission: Matrix) -> Matrix:
    """T(u,v), rounded up; refused where an output is possible in some states only, which gives them away."""
    B = np.asarray(emission, dtype=np.float64)
    if B.ndim != 2 or np.any(~np.isfinite(B)) or np.any(B < 0) or np.any(np.abs(B.sum(axis=1) - 1) > 1e-9):
        raise ValueError("emission must have one row of probabilities for each state, each with a sum of 1")
    B = B[:, B.max(axis=0) > 0]
    if np.any(B == 0):
        raise ValueError("emission has an output that only some states give; it must be possible in all")
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
    # Beyond, no bound is followed; a tilt costs itself at least.
    return float("inf") if T.max() > HIGHEST / 3 else max(bounded_loss(sides_of(c), T).loss for c in chains)


def response(chains: Sequence[Chain], epsilon: float) -> Matrix:
    """Randomized response within ε: the state itself e^τ times as likely as any other, with the largest τ."""
    tau = 1 / tilted(chains, None, epsilon).scale
    return np.array(local_emission.response(max(chain.k for chain in chains), tau))


def damped(chains: Sequence[Chain], emission: Matrix, epsilon: float) -> Matrix:
    """The matrix itself, or the least mixture with its mean row that keeps ε.

    B_s = s·B + (1−s)·mean row. Every ratio of two rows moves one way with s, so that the loss rises with s.
    """
    require_epsilon(epsilon)
    B = np.asarray(emission, dtype=np.float64)
    flat = B.mean(axis=0)

    def mixed(share: float) -> Matrix:
        return np.asarray(share * B + (1 - share) * flat, dtype=np.float64)

    return mixed(largest_within(lambda share: loss(chains, mixed(share)), epsilon, 1.0, PRECISION))
