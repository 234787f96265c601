"""The bounds of pufferfish/categorical/set_excess.py for many pairs of rows at once, with numpy."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from hushmq.pufferfish.categorical.set_excess import ALTERNATIONS, ROUNDING
from hushmq.pufferfish.categorical.transition_intervals import Row

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


class SetExcesses:
    """Upper bounds on max_S [a(S) − λ·b(S)] for pairs of rows within (low, high)."""

    def __init__(self, np: ModuleType, pairs: Sequence[tuple[tuple[Row, Row], tuple[Row, Row]]]) -> None:
        self._np = np
        # Pairs × 2 rows × (low, high) × states.
        bounds = np.array(pairs, dtype=np.float64)
        (self._a_low, a_high), (b_low, self._b_high) = (
            bounds[:, 0].swapaxes(0, 1),
            bounds[:, 1].swapaxes(0, 1),
        )
        self._a_width, self._b_width = a_high - self._a_low, self._b_high - b_low
        self._free_a = np.maximum(1.0 - self._a_low.sum(axis=1), 0.0)
        self._free_b = np.maximum(self._b_high.sum(axis=1) - 1.0, 0.0)

    def best_weights(self, lam: float) -> tuple[Array, Array]:
        """For each pair the weights θ and φ that alternating minimisation finds at this λ."""
        np, shape = self._np, self._free_a.shape
        best, best_theta, best_phi = np.full(shape, np.inf), np.zeros(shape), np.ones(shape)
        for start in (1.0, 0.0):
            theta, phi = np.zeros(shape), np.full(shape, start)
            for _ in range(ALTERNATIONS):
                theta = self._best_mixing_weight(self._base(lam, 0.0, phi), self._a_width, self._free_a)
                phi = self._best_mixing_weight(
                    self._base(lam, theta, 0.0), lam * self._b_width, lam * self._free_b
                )
            found = self.at(lam, theta, phi)
            better = found < best
            best = np.where(better, found, best)
            best_theta, best_phi = np.where(better, theta, best_theta), np.where(better, phi, best_phi)
        return best_theta, best_phi

    def at(self, lam: float, theta: Array, phi: Array) -> Array:
        """The bounds with these weights: valid, whatever the weights are."""
        np = self._np
        rest = (1.0 - theta) * self._free_a + lam * (1.0 - phi) * self._free_b
        slack = ROUNDING * self._a_low.shape[1] * (1.0 + lam * (1.0 - phi))
        found: Array = np.maximum(self._base(lam, theta, phi), 0.0).sum(axis=1) + rest + slack
        return found

    def _base(self, lam: float, theta: Array | float, phi: Array | float) -> Array:
        """The terms of the sum over states, with these weights."""
        found: Array = self._a_low - lam * self._b_high
        if not isinstance(theta, float):
            found = found + theta[:, None] * self._a_width
        if not isinstance(phi, float):
            found = found + (lam * phi)[:, None] * self._b_width
        return found

    def _best_mixing_weight(self, base: Array, widths: Array, slack_mass: Array) -> Array:
        """The t in [0, 1] that minimises Σ max(0, base + t·width) + (1−t)·slack_mass: where its slope changes sign."""
        np = self._np
        slope = np.where(base >= 0.0, widths, 0.0).sum(axis=1) - slack_mass
        between = (base < 0.0) & (base + widths > 0.0)
        breaks = np.where(between, -base / np.where(between, widths, 1.0), 1.0)
        order = np.argsort(breaks, axis=1)
        rises = np.take_along_axis(np.where(between, widths, 0.0), order, axis=1).cumsum(axis=1)
        reached = slope[:, None] + rises >= 0.0
        place = reached.argmax(axis=1)
        found = np.take_along_axis(np.take_along_axis(breaks, order, axis=1), place[..., None], axis=1)[
            ..., 0
        ]
        best: Array = np.where(slope >= 0.0, 0.0, np.where(reached.any(axis=1), found, 1.0))
        return best
