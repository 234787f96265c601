"""Bounds on max_S [a(S) − λ·b(S)] over sets S of states, for rows a and b of a transition matrix within intervals.

For entrywise bounds, a(S) is at most min(Σ_S a⁺, 1 − Σ_{not S} a⁻), and b(S) at least max(Σ_S b⁻, 1 − Σ_{not S} b⁺).
Mixing the two bounds of a with weights θ, 1−θ and those of b with φ, 1−φ makes the maximum over S a sum of positive
parts; every θ and φ give a valid bound, and the search minimises over them (docs/theory-k.md, Theorem 8).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hushmq.pufferfish.categorical.transition_intervals import Row

ROUNDING = 2.0**-48

ALTERNATIONS = 2
"""Rounds of alternating minimisation over θ and φ; no round worsens the bound."""


def largest_set_excess(above: tuple[Row, Row], below: tuple[Row, Row], lam: float) -> float:
    """Upper bound on max_S [a(S) − λ·b(S)] over the rows a within `above` and b within `below` (low, high)."""
    bound = _SetExcess(above, below, lam)
    best = math.inf
    for start in (1.0, 0.0) if bound.free_b else (1.0,):
        theta, phi = 0.0, start
        for _ in range(ALTERNATIONS if bound.free_a or bound.free_b else 0):
            theta = bound.best_theta(phi)
            phi = bound.best_phi(theta)
        best = min(best, bound.at(theta, phi))
    return best


def set_excess_within(above: tuple[Row, Row], below: tuple[Row, Row], lam: float, allowed: float) -> bool:
    """Whether max_S [a(S) − λ·b(S)] is proved to be at most `allowed`.

    Alternating minimisation may stop short of the least bound, for a narrower Θ as well as for a wider one. The bound
    is convex in (θ, φ), so its least value over θ is convex in φ: a golden section finds the least of all.
    """
    if largest_set_excess(above, below, lam) <= allowed:
        return True
    bound = _SetExcess(above, below, lam)
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    low, high = 0.0, 1.0
    left, right = 1.0 - golden, golden
    at_left, at_right = bound.at(bound.best_theta(left), left), bound.at(bound.best_theta(right), right)
    while min(at_left, at_right) > allowed and high - low > ROUNDING:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = bound.at(bound.best_theta(left), left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = bound.at(bound.best_theta(right), right)
    return min(at_left, at_right) <= allowed


class _SetExcess:
    """The bounds on max_S [a(S) − λ·b(S)] for two rows, one for each pair of weights θ, φ in [0, 1]."""

    def __init__(self, above: tuple[Row, Row], below: tuple[Row, Row], lam: float) -> None:
        self._lam = lam
        self._a_low, a_high = above
        b_low, self._b_high = below
        self._a_width = [high - low for low, high in zip(self._a_low, a_high, strict=True)]
        self._b_width = [lam * (high - low) for low, high in zip(b_low, self._b_high, strict=True)]
        self.free_a = max(1 - math.fsum(self._a_low), 0.0)
        self.free_b = max(math.fsum(self._b_high) - 1, 0.0)

    def best_theta(self, phi: float) -> float:
        lam, rows = self._lam, zip(self._a_low, self._b_high, self._b_width, strict=True)
        return _best_mixing_weight([a - lam * b + phi * w for a, b, w in rows], self._a_width, self.free_a)

    def best_phi(self, theta: float) -> float:
        lam, rows = self._lam, zip(self._a_low, self._a_width, self._b_high, strict=True)
        base = [a + theta * w - lam * b for a, w, b in rows]
        return _best_mixing_weight(base, self._b_width, lam * self.free_b)

    def at(self, theta: float, phi: float) -> float:
        lam = self._lam
        terms = (
            a + theta * wa - lam * b + phi * wb
            for a, wa, b, wb in zip(self._a_low, self._a_width, self._b_high, self._b_width, strict=True)
        )
        rest = (1 - theta) * self.free_a + lam * (1 - phi) * self.free_b
        slack = ROUNDING * len(self._a_low) * (1.0 + lam * (1 - phi))
        return math.fsum(term for term in terms if term > 0.0) + rest + slack


def _best_mixing_weight(base: Sequence[float], widths: Sequence[float], slack_mass: float) -> float:
    """The t in [0, 1] that minimises Σ max(0, base + t·width) + (1−t)·slack_mass: where its slope changes sign."""
    slope = -slack_mass
    breakpoints = []
    for start, width in zip(base, widths, strict=True):
        if width > 0.0:
            if start >= 0.0:
                slope += width
            elif start + width > 0.0:
                breakpoints.append((-start / width, width))
    if slope >= 0.0:
        return 0.0
    for t, width in sorted(breakpoints):
        slope += width
        if slope >= 0.0:
            return t
    return 1.0
