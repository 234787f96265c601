"""Noise on a stream of k states, as a value: an emission matrix whose row u is the law of what is sent in state u."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from hushmq.pufferfish.categorical import emission
from hushmq.pufferfish.categorical.transition_intervals import SUM_TOLERANCE, Rows


@dataclass(frozen=True)
class CategoricalNoise:
    """rows[u][z] = P(Z=z | X=u). Its tilt is the same in all directions."""

    rows: Rows

    def __post_init__(self) -> None:
        k = len(self.rows)
        if k < 2:
            raise ValueError("an emission matrix has a row for each state, 2 at least")
        for u, row in enumerate(self.rows):
            if len(row) != k:
                raise ValueError(f"row {u} of the emission matrix must have {k} entries")
            if min(row) < 0.0 or abs(math.fsum(row) - 1.0) > SUM_TOLERANCE:
                raise ValueError(f"row {u} of the emission matrix must hold probabilities that sum to 1")

    @classmethod
    def response(cls, k: int, tau: float) -> CategoricalNoise:
        """Randomized response of k states with a tilt of at most τ, which leaves the most signal."""
        return cls(emission.randomized_response(k, tau))

    @property
    def states(self) -> int:
        """The number of states."""
        return len(self.rows)

    @cached_property
    def tilts(self) -> tuple[float, float]:
        """The tilt of the matrix, twice: it is the same in all directions."""
        tilt = emission.tilt_of(self._distinct_rows)
        return tilt, tilt

    @property
    def signal(self) -> float:
        """The least difference, over states, between the probabilities of the true state and of any other output."""
        return min(row[u] - max(row[:u] + row[u + 1 :]) for u, row in enumerate(self.rows))

    def amplified(self, w: float) -> float:
        """The tilt on the true states of a release whose tilt on the sanitized states is w, rounded up."""
        return emission.amplified(self._distinct_rows, w)

    def release_tilt(self, tau: float) -> float:
        """The largest w found with amplified(w) ≤ τ; infinite if the tilt of the noise is at most τ."""
        return emission.release_tilt(self._distinct_rows, tau)

    def with_tilts(self, tau0: float, tau1: float) -> CategoricalNoise:
        """Randomized response of the smaller tilt."""
        return CategoricalNoise.response(self.states, min(tau0, tau1))

    @property
    def laws(self) -> Rows:
        """For each state, the probabilities of what is sent in it."""
        return self.rows

    def frequency_weights(self) -> list[list[float]]:
        """The transposed inverse of the matrix: rows a_x with Σ_z rows[u][z]·a_x[z] = 1 for u = x and 0 otherwise.

        ValueError where the matrix has no inverse.
        """
        return emission.transposed_inverse(self.rows)

    def in_words(self) -> str:
        """A description: the probability that a state is sent unchanged."""
        truths = [row[state] for state, row in enumerate(self.rows)]
        low, high = min(truths), max(truths)
        return f"kept {low:.4f}" if low == high else f"kept {low:.4f}–{high:.4f}"

    def as_tree(self) -> list[list[float]]:
        """The rows."""
        return [list(row) for row in self.rows]

    def as_json(self) -> str:
        """`{"emission": [[…], …]}`, exactly."""
        return json.dumps({"emission": self.as_tree()})

    @property
    def fingerprint(self) -> str:
        """16 bytes of BLAKE2b over the stored text, in hexadecimal."""
        return blake2b(self.as_json().encode(), digest_size=16).hexdigest()

    @cached_property
    def _distinct_rows(self) -> Rows:
        """Two rows if exchanging states leaves the matrix unchanged (randomized response); otherwise all rows."""
        k = self.states
        truth, lie = self.rows[0][0], self.rows[0][1]
        alike = all(self.rows[u][z] == (truth if u == z else lie) for u in range(k) for z in range(k))
        return self.rows[:2] if alike else self.rows
