"""Binary chains of higher order: losses under such a model, and an attacker who uses it.

A context is the integer of the last `order` bits, the latest in the lowest bit; contexts form a first-order chain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.quilt.markov_chain import Chain

Bits = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Model:
    """P(next bit is 1 | context), for every context."""

    order: int
    ones: Floats

    @classmethod
    def fit(cls, bits: Bits, order: int) -> Model:
        """The model fitted by counting, with half a pseudo-count for each bit."""
        contexts = _contexts(bits, order)[:-1]
        after = bits[order:]
        seen = np.bincount(contexts, minlength=1 << order) + 1.0
        ones = np.bincount(contexts, weights=after, minlength=1 << order) + 0.5
        return cls(order, np.asarray(ones / seen, dtype=np.float64))

    def bits_per_tick(self, bits: Bits) -> float:
        """The code length per tick of a sequence under this model."""
        p = self.ones[_contexts(bits, self.order)[:-1]]
        after = bits[self.order :]
        return float(-np.log2(np.where(after == 1, p, 1 - p)).mean())

    @cached_property
    def chain(self) -> Chain:
        """The first-order chain of contexts."""
        size = 1 << self.order
        P = np.zeros((size, size))
        contexts = np.arange(size)
        for bit, p in ((0, 1 - self.ones), (1, self.ones)):
            P[contexts, (contexts << 1 | bit) & (size - 1)] += p
        return Chain(P)

    @cached_property
    def law(self) -> Floats:
        """The stationary law of the contexts."""
        return self.chain.stationary()

    def constant_loss(self, tau: float, bit: int, *, reach: int = 4000) -> float:
        """The log-ratio of the constant output `bit` about one instant, if each instant is tilted by τ.

        That output is possible, so the ratio is a lower bound on the loss of any noise with this tilt. It is
        log E[e^(τ·n) | X = bit] − log E[e^(τ·n) | X ≠ bit], where n is the number of ticks in state `bit`; the future
        of each context follows the chain, the past its reversal.
        """
        chain, law = self.chain, self.law
        weight = np.where(np.arange(chain.k) & 1 == bit, math.exp(tau), 1.0)
        sides = [_worth(P, weight, reach) for P in (chain.transition, chain.reversal().transition)]
        total = law * weight * sides[0] * sides[1]
        here = np.arange(chain.k) & 1 == bit
        inside, outside = total[here].sum() / law[here].sum(), total[~here].sum() / law[~here].sum()
        return float(np.log(inside / outside))

    def drift(self, other: Model) -> float:
        """The largest difference per tick of the two log-likelihoods along a constant sequence.

        The Δ of SWC Theorem 2.4 grows at least at this rate with the length of a stream.
        """
        stays = [(1 - model.ones[0], model.ones[-1]) for model in (self, other)]
        return float(np.abs(np.log(stays[0]) - np.log(stays[1])).max())

    def posteriors(self, seen: Bits, noise: BinaryNoise) -> Floats:
        """P(bit is 1 | all outputs), by the forward–backward algorithm over contexts."""
        size = 1 << self.order
        targets = np.arange(size)
        bit = targets & 1
        before = [targets >> 1 | high << (self.order - 1) for high in (0, 1)]
        into = [np.where(bit == 1, self.ones[source], 1 - self.ones[source]) for source in before]
        after = [(targets << 1 | one) & (size - 1) for one in (0, 1)]
        out = [1 - self.ones, self.ones]
        likelihood = np.array([[1 - noise.rho0, noise.rho1], [noise.rho0, 1 - noise.rho1]])[:, bit]
        forward = np.empty((len(seen), size))
        alpha = self.law
        for t, z in enumerate(seen.tolist()):
            if t:
                alpha = alpha[before[0]] * into[0] + alpha[before[1]] * into[1]
            alpha = alpha * likelihood[z]
            alpha /= alpha.sum()
            forward[t] = alpha
        beta = np.ones(size)
        found = np.empty(len(seen))
        for t in range(len(seen) - 1, -1, -1):
            both = forward[t] * beta
            found[t] = both[1::2].sum() / both.sum()
            known = likelihood[seen[t]] * beta
            beta = out[0] * known[after[0]] + out[1] * known[after[1]]
            beta /= beta.max()
        return found


def _contexts(bits: Bits, order: int) -> Bits:
    """The context that ends at each bit, from the first complete one on."""
    contexts = np.zeros(len(bits) - order + 1, dtype=np.int64)
    for back in range(order):
        contexts |= bits[order - 1 - back : len(bits) - back] << back
    return contexts


def _worth(P: Floats, weight: Floats, reach: int) -> Floats:
    """E[product of the weights of the next `reach` contexts], up to a factor."""
    worth = np.ones(len(P))
    for _ in range(reach):
        step = P @ (weight * worth)
        step /= step.max()
        if np.abs(step - worth).max() < 1e-13:
            return np.asarray(step, dtype=np.float64)
        worth = step
    return worth
