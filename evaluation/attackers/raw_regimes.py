"""Chains with hidden regimes fitted to raw recordings, by expectation maximisation; an attacker who knows one.

No reader of a stream has the raw recording: this is the strongest knowledge of the chain that there is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hushmq.evaluation.attackers.block_smoother import Floats, smoothed
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.regimes.regime_chain import RegimeChain

Bits = NDArray[np.int64]

FIRST_LENGTH = 100
"""Ticks that a regime lasts in the first guess."""


def fitted_regimes(pieces: Sequence[Bits], *, regimes: int = 2, rounds: int = 60) -> RegimeChain:
    """The chain of so many regimes after some rounds, from regimes with few ones to regimes with many."""
    return fit_with_likelihood(pieces, regimes=regimes, rounds=rounds)[0]


def fit_with_likelihood(
    pieces: Sequence[Bits], *, regimes: int = 2, rounds: int = 60
) -> tuple[RegimeChain, float]:
    """The chain, and the log-likelihood per tick before the last round."""
    long = [piece for piece in pieces if len(piece) > 1]
    before = np.concatenate([piece[:-1] for piece in long])
    moved = np.concatenate([piece[1:] != piece[:-1] for piece in long])
    fresh = np.zeros(len(before), dtype=bool)
    fresh[np.cumsum([0, *(len(piece) - 1 for piece in long[:-1])])] = True
    share, often = float(before.mean()), float(moved.mean())
    change, moves = _first_guess(regimes, share, often)
    likelihood = -math.inf
    for _ in range(rounds):
        chances = np.where(moved[:, None], moves[:, before].T, 1 - moves[:, before].T)
        found = smoothed(Chain(change).stationary(), change, chances, fresh)
        likelihood = found.log_likelihood / len(before)
        inside = found.marginals
        pairs = found.forward[:-1, :, None] * change * (chances[1:] * found.backward[1:])[:, None, :]
        pairs = pairs[~fresh[1:]]
        counts = (pairs / pairs.sum(axis=(1, 2), keepdims=True)).sum(axis=0) + 1e-6
        change = counts / counts.sum(axis=1, keepdims=True)
        for x in (0, 1):
            there = inside[before == x]
            moves[:, x] = (there[moved[before == x]].sum(axis=0) + 0.5) / (there.sum(axis=0) + 1.0)
    return RegimeChain.of(change.tolist(), [(q, r) for q, r in moves.tolist()]), likelihood


def _first_guess(regimes: int, share: float, often: float) -> tuple[Floats, Floats]:
    """Regimes that last a while, with shares of ones spread around the recording's and its rate of changes."""
    change = np.full((regimes, regimes), 1 / FIRST_LENGTH / max(1, regimes - 1))
    np.fill_diagonal(change, 1 - 1 / FIRST_LENGTH)
    if regimes == 1:
        change = np.ones((1, 1))
    places = (np.arange(regimes) + 0.5) / regimes * 2 - 1 if regimes > 1 else np.zeros(1)
    logits = math.log(share / (1 - share)) + 3.0 * places
    shares = 1 / (1 + np.exp(-logits))
    # Of a chain with share π that changes so often, q·(1−π) = r·π = often/2, as far as probabilities allow.
    q, r = (np.clip(often / 2 / np.maximum(1e-6, rest), 1e-4, 0.9) for rest in (1 - shares, shares))
    total = np.maximum(1.0, (q + r) / 0.95)
    return change, np.stack([q / total, r / total], axis=1)


def moved_odds(chain: RegimeChain, outputs: Bits, published: NDArray[np.bool_], noise: BinaryNoise) -> Floats:
    """How much the log-odds of state 1 move at every tick, to who knows the chain and all published outputs."""
    law, kernel = np.array(chain.stationary), np.array(chain.kernel)
    bit = np.arange(len(law)) % 2
    seen = np.array([[1 - noise.rho0, noise.rho1], [noise.rho0, 1 - noise.rho1]])[:, bit]
    evidence = np.where(published[:, None], seen[outputs], 1.0)
    found = smoothed(law, kernel, evidence).marginals
    ones = found[:, bit == 1].sum(axis=1)
    zeros = found[:, bit == 0].sum(axis=1)
    return np.asarray(np.log(ones / zeros) - math.log(chain.ones / (1 - chain.ones)))
