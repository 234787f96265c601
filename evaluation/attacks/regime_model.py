"""A chain inside hidden regimes: a regime is a slow chain, and each has its own q and r (docs/theory-regimes.md).

Fitted to a raw recording by expectation maximisation, which is more than any reader of the stream has. Its loss is that
of docs/theory-regimes.md; an attacker's posterior is computed by the forward–backward algorithm on (regime, bit).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.regimes.product_tilt import product_loss
from hushmq.pufferfish.regimes.regime_chain import RegimeChain

Bits = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RegimeModel:
    """`change` is the chain of regimes; `moves[R, x]` is P(X_t ≠ x | X_{t−1} = x, R_t = R)."""

    change: Floats
    moves: Floats

    @classmethod
    def fit(cls, bits: Bits, *, rounds: int) -> RegimeModel:
        """Two regimes, from many zeros and many ones; `rounds` of expectation maximisation."""
        share = float(bits.mean())
        model = cls(
            np.array([[0.99, 0.01], [0.01, 0.99]]),
            np.array([[0.5 * share, 1 - 0.5 * share], [1 - 0.5 * (1 - share), 0.5 * (1 - share)]]) * 0.5,
        )
        moved = (bits[1:] != bits[:-1]).astype(np.int64)
        for _ in range(rounds):
            model = model._improved(bits[:-1], moved)
        return model

    def _improved(self, before: Bits, moved: Bits) -> RegimeModel:
        """One round: the expected counts of changes and moves, then their shares."""
        chances = np.where(moved[:, None] == 1, self.moves[:, before].T, 1 - self.moves[:, before].T)
        n = len(chances)
        forward, backward = np.empty((n, 2)), np.empty((n, 2))
        (a, b), (c, d) = self.change.tolist()
        first, second = Chain(self.change).stationary().tolist()
        rows = chances.tolist()
        for t, (left, right) in enumerate(rows):
            if t:
                first, second = first * a + second * c, first * b + second * d
            first, second = first * left, second * right
            total = first + second
            first, second = first / total, second / total
            forward[t] = first, second
        first = second = 1.0
        for t in range(n - 1, -1, -1):
            backward[t] = first, second
            left, right = first * rows[t][0], second * rows[t][1]
            first, second = a * left + b * right, c * left + d * right
            total = first + second
            first, second = first / total, second / total
        inside = forward * backward
        inside /= inside.sum(axis=1, keepdims=True)
        pairs = forward[:-1, :, None] * self.change * (chances[1:] * backward[1:])[:, None, :]
        pairs /= pairs.sum(axis=(1, 2), keepdims=True)
        change = pairs.sum(axis=0)
        moves = np.array(
            [
                [(inside[before == x, regime] * moved[before == x]).sum() + 0.5 for x in (0, 1)]
                / np.array([inside[before == x, regime].sum() + 1.0 for x in (0, 1)])
                for regime in (0, 1)
            ]
        )
        return RegimeModel(change / change.sum(axis=1, keepdims=True), moves)

    @property
    def chain(self) -> RegimeChain:
        """As the mathematics prices it, regimes in order of their share of ones."""
        return RegimeChain.of(self.change.tolist(), [(q, r) for q, r in self.moves.tolist()])

    def loss(self, noise: BinaryNoise) -> float:
        """The loss of the constant outputs on an endless stream to the prior adversary: at least this is lost."""
        return product_loss(self.chain, noise.tau0, noise.tau1)

    def moved(self, outputs: Bits, noise: BinaryNoise) -> Floats:
        """By how much the log-odds of every tick move, given all outputs."""
        law, P = np.array(self.chain.stationary), np.array(self.chain.kernel)
        bit = np.arange(4) % 2
        seen = np.array([[1 - noise.rho0, noise.rho1], [noise.rho0, 1 - noise.rho1]])[:, bit]
        forward = np.empty((len(outputs), 4))
        state = law
        for t, z in enumerate(outputs.tolist()):
            state = (state @ P if t else state) * seen[z]
            state = state / state.sum()
            forward[t] = state
        after, found = np.ones(4), np.empty(len(outputs))
        for t in range(len(outputs) - 1, -1, -1):
            both = forward[t] * after
            found[t] = math.log(both[bit == 1].sum() / both[bit == 0].sum())
            after = P @ (seen[outputs[t]] * after)
            after = after / after.max()
        return np.abs(found - math.log(law[bit == 1].sum() / law[bit == 0].sum()))
