"""The loss of one binary chain of which every m-th tick is published, exactly, against both adversaries.

Let C be the likelihood ratio of what lies on one side of a tick, given state 0 and given state 1 there. j ticks nearer,
the ratio is φ_j(C) = (C·P^j[0,0] + P^j[0,1]) / (C·P^j[1,0] + P^j[1,1]); a published tick multiplies it by a factor
between e^−τ1 and e^τ0. φ_j rises in C if λ^j > 0 and falls otherwise, so both ends of the range of C are followed at
once, for either sign of λ (docs/theory-regimes.md, Theorem R3).

The secret is the state at any tick, published or not. The informed adversary may know the state y at any other tick,
l ticks away: the side is then worth log C(y) − log(P^l[0,y]/P^l[1,y]), with C started at ∞ (y = 0) or 0 (y = 1) there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.adversary import Adversary, check_adversary, check_tilts

Array = NDArray[np.float64]

ROUNDING = 1e-11
"""Relative, and absolute in nats: exceeds the rounding errors of the recursions."""


@dataclass(frozen=True)
class StridedChain:
    """P(0→1) = q, P(1→0) = r, every `stride`-th tick published with tilts of at most τ0 and τ1."""

    q: float
    r: float
    stride: int
    tau0: float
    tau1: float

    def __post_init__(self) -> None:
        check_tilts(self.tau0, self.tau1)
        if not (0.0 < self.q < 1.0 and 0.0 < self.r < 1.0):
            raise ValueError(f"q is {self.q!r}, r is {self.r!r}; both must be inside (0, 1)")
        if self.stride < 1:
            raise ValueError(f"stride is {self.stride}; it must be 1 or more")

    def loss(self, adversary: Adversary) -> float:
        """The largest loss at any tick. One chain leaves nothing undecided: that adversary is then the prior one."""
        check_adversary(adversary)
        # Entry a − 1 is a side whose nearest published tick is a ticks away; a published tick has both at a = m.
        sides = self._sides(adversary, np.arange(1.0, self.stride + 1.0))
        found = [tau + 2 * float(side[-1]) for tau, side in zip((self.tau0, self.tau1), sides, strict=True)]
        if self.stride > 1:
            found += [float((side[:-1] + side[-2::-1]).max()) for side in sides]
        return self._rounded(max(found))

    def published_losses(self, adversary: Adversary) -> tuple[float, float]:
        """The loss at a published tick, towards 0 and towards 1."""
        towards0, towards1 = self._sides(adversary, np.array([float(self.stride)]))
        zero, one = (
            self._rounded(tau + 2 * float(side[0]))
            for tau, side in ((self.tau0, towards0), (self.tau1, towards1))
        )
        return zero, one

    def _rounded(self, loss: float) -> float:
        # What a step rounds, and what is missing when the iteration ends, adds up over all that is remembered.
        return loss * (1 + ROUNDING) + ROUNDING + 2.0**-50 * self._steps

    def _sides(self, adversary: Adversary, distances: Array) -> tuple[Array, Array]:
        """Towards 0 and towards 1: what a side is worth, by the distance of its nearest published tick."""
        near = self._towards(np.repeat(self._endless[:, :, None], len(distances), axis=2), distances)
        sides = _log_odds(near[0]), -_log_odds(near[1])
        return self._with_known_states(sides, distances) if adversary == "informed" else sides

    @property
    def _correlation(self) -> float:
        return 1.0 - self.q - self.r

    def _moved(self, weights: Array, ticks: Array | float) -> Array:
        """P^j applied to the weights of states 0 and 1, which are the first axis; scaled to a largest one of 1."""
        ticks = np.asarray(ticks, dtype=np.float64)
        slow = self.q + self.r < 1.0
        fallen = -np.expm1(ticks * math.log1p(-self.q - self.r)) if slow else 1.0 - self._correlation**ticks
        difference = fallen * (weights[1] - weights[0]) / (self.q + self.r)
        moved = np.stack([weights[0] + self.q * difference, weights[1] - self.r * difference])
        return np.asarray(moved / moved.max(axis=0))

    def _towards(self, both: Array, ticks: Array | float) -> Array:
        """The same for a pair of weights, towards 0 and towards 1, which a negative correlation exchanges."""
        moved = np.stack([self._moved(one, ticks) for one in both])
        exchanged = np.power(self._correlation, np.asarray(ticks, dtype=np.float64)) < 0.0
        return np.asarray(np.where(exchanged, moved[::-1], moved))

    def _published(self, both: Array) -> Array:
        """The pair with the tilts of a published tick."""
        tilts = np.array([[math.exp(self.tau0), 1.0], [1.0, math.exp(self.tau1)]])
        return np.asarray(both * tilts.reshape(2, 2, *(1,) * (both.ndim - 2)))

    @cached_property
    def _endless(self) -> Array:
        """The pair of an endless side at its nearest published tick, whose tilt is included."""
        both = self._published(np.ones((2, 2)))
        for _ in range(self._steps):
            following = self._published(self._towards(both, self.stride))
            following /= following.max(axis=1, keepdims=True)
            if np.abs(following - both).max() < 1e-16:
                break
            both = following
        return both

    @cached_property
    def _steps(self) -> int:
        """Strides after which nothing is remembered to the last bit: each shrinks log-ratios by Birkhoff's factor."""
        up, down = thinned(self.q, self.r, self.stride)
        spread = math.log((1.0 - up) * (1.0 - down) / (up * down))
        return math.ceil(40.0 / -math.log(max(1e-300, math.tanh(abs(spread) / 4.0)))) + 2

    def _with_known_states(self, sides: tuple[Array, Array], distances: Array) -> tuple[Array, Array]:
        """The same if the state at any tick of the side may be known as well."""
        towards0, towards1 = sides
        a, beyond = distances[:, None], np.arange(float(self.stride))
        for known in (np.array([1.0, 0.0]), np.array([0.0, 1.0])):
            start = np.repeat(known[:, None], self.stride, axis=1)
            both = self._towards(np.stack([start, start]), beyond)
            # `beyond` ticks after a published one; at 0 it is the published tick that is known.
            both[:, :, 1:] = self._published(both)[:, :, 1:]
            for passed in range(self._steps):
                base = _log_odds(self._moved(known[:, None, None], a + passed * self.stride + beyond))
                near = self._towards(np.repeat(both[:, :, None, :], len(distances), axis=2), a)
                np.maximum(towards0, (_log_odds(near[0]) - base).max(axis=1), out=towards0)
                np.maximum(towards1, (base - _log_odds(near[1])).max(axis=1), out=towards1)
                both = self._published(self._towards(both, self.stride))
                both /= both.max(axis=1, keepdims=True)
                if np.abs(both - self._endless[:, :, None]).max() < 1e-15:
                    break
        return towards0, towards1


def _log_odds(weights: Array) -> Array:
    return np.asarray(np.log(weights[0] / weights[1]))


def strided_loss(q: float, r: float, tau0: float, tau1: float, *, stride: int, adversary: Adversary) -> float:
    """The loss of an endless stream of one chain with these tilts at every `stride`-th tick."""
    return StridedChain(q, r, stride, tau0, tau1).loss(adversary)


def thinned(q: float, r: float, stride: int) -> tuple[float, float]:
    """P^m[0, 1] and P^m[1, 0]: the chain of the published ticks alone."""
    fallen = -math.expm1(stride * math.log1p(-q - r)) if q + r < 1.0 else 1.0 - (1.0 - q - r) ** stride
    return fallen * q / (q + r), fallen * r / (q + r)
