"""A chain inside hidden regimes: a regime is a slow chain, and each has its own q and r (docs/theory-world.md, W5).

Fitted to a raw recording by expectation maximisation, which is more than any reader of the stream has. The product
states (regime, bit) form a chain, under which the loss of a constant output is exact and an attacker's posterior is
computed by the forward–backward algorithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.quilt.markov_chain import Chain

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
    def chain(self) -> Chain:
        """The chain of product states 2·regime + bit."""
        P = np.zeros((4, 4))
        for regime in (0, 1):
            for x in (0, 1):
                for after in (0, 1):
                    leave = self.moves[after, x]
                    P[2 * regime + x, 2 * after + x] = self.change[regime, after] * (1 - leave)
                    P[2 * regime + x, 2 * after + 1 - x] = self.change[regime, after] * leave
        return Chain(P)

    def log_likelihood(self, bits: Bits) -> float:
        """Per tick, of a raw recording."""
        P, law = self.chain.transition, self.chain.stationary()
        state, total = law * (np.arange(4) % 2 == bits[0]), 0.0
        for bit in bits[1:].tolist():
            state = (state @ P) * (np.arange(4) % 2 == bit)
            total += math.log(state.sum())
            state = state / state.sum()
        return total / (len(bits) - 1)

    def loss(self, noise: BinaryNoise) -> float:
        """The loss of the two constant outputs on an endless stream to the prior adversary: at least this is lost."""
        chain = self.chain
        law, back = chain.stationary(), chain.reversal().transition
        found = 0.0
        for bit, tau in ((0, noise.tau0), (1, noise.tau1)):
            here = np.arange(4) % 2 == bit
            tilt = np.where(here, math.exp(tau), 1.0)
            total = law * _fixed(chain.transition, tilt) * _fixed(back, tilt)
            found = max(
                found,
                tau
                + math.log(total[here].sum() / law[here].sum())
                - math.log(total[~here].sum() / law[~here].sum()),
            )
        return found

    def moved(self, outputs: Bits, noise: BinaryNoise) -> Floats:
        """By how much the log-odds of every tick move, given all outputs."""
        chain = self.chain
        law, P = chain.stationary(), chain.transition
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


def _fixed(P: Floats, tilt: Floats) -> Floats:
    """The limit of (P·diag(tilt))^n·1, up to a factor."""
    worth = np.ones(len(P))
    for _ in range(100_000):
        step = P @ (tilt * worth)
        step = step / step.max()
        if np.abs(step - worth).max() < 1e-14:
            break
        worth = step
    return np.asarray(step, dtype=np.float64)
