"""The attackers' model: a stationary binary chain observed through independent noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.binary.binary_noise import BinaryNoise

Floats = NDArray[np.float64]
States = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Hidden:
    """A hidden Markov chain: q = P(0→1), r = P(1→0), and the noise on each output."""

    q: float
    r: float
    noise: BinaryNoise

    @property
    def stationary(self) -> Floats:
        """π, row by state."""
        return np.array([self.r, self.q]) / (self.q + self.r)

    @property
    def step(self) -> Floats:
        """P, from row to column."""
        return np.array([[1 - self.q, self.q], [self.r, 1 - self.r]])

    @property
    def emission(self) -> Floats:
        """B, from state (row) to output (column)."""
        return np.array([[1 - self.noise.rho0, self.noise.rho0], [self.noise.rho1, 1 - self.noise.rho1]])

    def paths(self, streams: int, ticks: int, rng: np.random.Generator) -> States:
        """Sampled true states, one stream per row."""
        draws = rng.random((ticks, streams))
        found = np.empty((ticks, streams), dtype=np.uint8)
        state = draws[0] < self.stationary[1]
        found[0] = state
        for tick in range(1, ticks):
            # The next state is 1 with probability q from 0 and 1 − r from 1.
            state = draws[tick] < np.where(state, 1 - self.r, self.q)
            found[tick] = state
        return np.ascontiguousarray(found.T)

    def sanitize(self, states: States, rng: np.random.Generator) -> States:
        """Outputs of true states under simulated noise from a seeded generator, which a device never uses."""
        flips = rng.random(states.shape) < np.where(states == 0, self.noise.rho0, self.noise.rho1)
        return states ^ flips.astype(np.uint8)
