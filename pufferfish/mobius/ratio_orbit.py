"""The orbit of the likelihood ratio C = P(later outputs | 0) / P(later outputs | 1) through ticks of one tilt.

One tick maps C to (m·C·(1−q) + q)/(m·C·r + 1−r) with m = e^τ. For q+r ≤ 1 this is a Möbius map with positive entries
and one attracting fixed point C∞ ≥ 1: each tick multiplies (C−C∞)/(C−C₋) by μ = λ·m/Λ², where C₋ < 0 is the other
fixed point and Λ the larger eigenvalue. The formulas use κ = −C∞/C₋ and μ, so that all terms are positive and none
cancel.
"""

from __future__ import annotations

import math
from typing import NamedTuple

# The unit roundoff of a double.
UNIT_ROUNDOFF = 2.0**-53

# In nats: a larger tilt gives the same ratios in double precision.
LARGEST_TILT = 300.0


class MobiusMap(NamedTuple):
    """The map x → (a·x + b)/(c·x + d) with non-negative entries, determined up to a common factor.

    The determinant is stored because a·d − b·c would cancel in a long product.
    """

    a: float
    b: float
    c: float
    d: float
    determinant: float

    def __call__(self, x: float) -> float:
        """The image of x, which may be infinite."""
        if x == math.inf:
            return self.a / self.c if self.c else math.inf
        below = self.c * x + self.d
        # If b and d have underflowed, the image of 0 is at most the image of infinity.
        return (self.a * x + self.b) / below if below else self.a / self.c

    def compose(self, inner: MobiusMap) -> MobiusMap:
        """The map x → self(inner(x)), rescaled so that a long product neither overflows nor underflows."""
        a = self.a * inner.a + self.b * inner.c
        b = self.a * inner.b + self.b * inner.d
        c = self.c * inner.a + self.d * inner.c
        d = self.c * inner.b + self.d * inner.d
        scale = 1.0 / max(a, b, c, d)
        return MobiusMap(
            a * scale, b * scale, c * scale, d * scale, self.determinant * inner.determinant * scale * scale
        )


class Orbit(NamedTuple):
    """The fixed point C∞, κ and log μ of the map of one tick."""

    fixed_point: float
    kappa: float
    log_mu: float

    def map_of(self, ticks: int) -> MobiusMap:
        """The map of `ticks` ticks: [[κ+w, C∞(1−w)], [κ(1−w)/C∞, 1+κw]] with w = μ^ticks."""
        if ticks == 0:
            return MobiusMap(1.0, 0.0, 0.0, 1.0, 1.0)
        exponent = ticks * self.log_mu
        w, rest = math.exp(exponent), -math.expm1(exponent)
        kappa, fixed_point = self.kappa, self.fixed_point
        return MobiusMap(
            kappa + w, fixed_point * rest, kappa * rest / fixed_point, 1.0 + kappa * w, w * (1.0 + kappa) ** 2
        )

    def advance(self, ticks: int, x: float) -> float:
        """The image of x under the map of `ticks` ticks."""
        exponent = ticks * self.log_mu
        w, rest = math.exp(exponent), -math.expm1(exponent)
        kappa, fixed_point = self.kappa, self.fixed_point
        return ((kappa + w) * x + fixed_point * rest) / (kappa * rest / fixed_point * x + 1.0 + kappa * w)

    def ticks_between(self, x: float, y: float) -> float:
        """How many ticks lead from x to y, a fraction of one included; infinite if no number does."""
        other = -self.fixed_point / self.kappa
        ahead = (x - self.fixed_point) * (y - other)
        if ahead == 0.0:
            return math.inf
        quotient = (y - self.fixed_point) * (x - other) / ahead
        return math.log(quotient) / self.log_mu if quotient > 0.0 else math.inf

    def from_known_0(self, ticks: int) -> float:
        """C at `ticks` ticks before an instant known to be in state 0: C∞·(1 + w/κ)/(1 − w)."""
        exponent = ticks * self.log_mu
        return self.fixed_point * (1.0 + math.exp(exponent) / self.kappa) / -math.expm1(exponent)

    def from_known_1(self, ticks: int) -> float:
        """C at `ticks` ticks before an instant known to be in state 1: C∞·(1 − w)/(1 + κ·w)."""
        exponent = ticks * self.log_mu
        return self.fixed_point * -math.expm1(exponent) / (1.0 + self.kappa * math.exp(exponent))

    def from_known_states(self, ticks: int) -> tuple[float, float]:
        """`from_known_0` and `from_known_1`."""
        exponent = ticks * self.log_mu
        w, rest = math.exp(exponent), -math.expm1(exponent)
        return self.fixed_point * (1.0 + w / self.kappa) / rest, self.fixed_point * rest / (
            1.0 + self.kappa * w
        )


def one_tick_map(q: float, r: float, tau: float) -> MobiusMap:
    """The map of one tick with tilt τ towards 0, divided by m; for any q and r."""
    shrink = math.exp(-min(tau, LARGEST_TILT))
    return MobiusMap(1.0 - q, q * shrink, r, (1.0 - r) * shrink, (1.0 - q - r) * shrink)


def orbit_of(q: float, r: float, tau: float) -> Orbit:
    """The orbit of ticks with tilt τ towards 0 on a chain with q+r < 1; C∞ is rounded up."""
    if tau == 0.0:
        return Orbit(1.0, r / q, math.log1p(-(q + r)))
    tau = min(tau, LARGEST_TILT)
    shrink = math.exp(-tau)  # entries are divided by m to avoid overflow
    b, d = q * shrink, (1.0 - r) * shrink
    fixed_point, spread = attracting_fixed_point(1.0 - q, b, r, d, (r - q) - (1.0 - r) * math.expm1(-tau))
    larger = r * fixed_point + d
    gap = spread / larger  # 1 − μ
    # Near 1, μ comes from the eigenvalues' gap; near 0, from their product λ·m.
    log_mu = math.log1p(-gap) if gap < 0.5 else math.log1p(-(q + r)) - tau - 2.0 * math.log(larger)
    return Orbit(fixed_point, fixed_point * fixed_point * r / b, log_mu)


def attracting_fixed_point(a: float, b: float, c: float, d: float, difference: float) -> tuple[float, float]:
    """The attracting fixed point of x → (a·x+b)/(c·x+d), rounded up, and the gap between the matrix's eigenvalues.

    The caller computes the difference a−d without cancellation. Its rounding error is added, because the fixed point
    rises in it.
    """
    difference += 8.0 * UNIT_ROUNDOFF * (a + d)
    spread = math.sqrt(difference * difference + 4.0 * b * c)
    if difference >= 0.0:
        return (difference + spread) / (2.0 * c), spread
    return 2.0 * b / (spread - difference), spread
