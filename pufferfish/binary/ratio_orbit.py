"""How the ratio C = P(what follows | 0) / P(what follows | 1) travels through ticks of one tilt.

One tick maps C to (m·C·(1−q) + q)/(m·C·r + 1−r) with m = e^τ. With q+r ≤ 1 this is a Möbius map with
positive entries: it has one attracting fixed point C∞ ≥ 1 and contracts towards it, (C−C∞)/(C−C₋) being
multiplied by μ = λ·m/Λ² at every tick, where C₋ < 0 is the other fixed point and Λ the larger eigenvalue.
Everything is written with κ = −C∞/C₋ and μ, which keeps all terms positive: no cancellation anywhere.
"""

from __future__ import annotations

import math
from typing import NamedTuple

# One rounding unit of a double.
UNIT = 2.0**-53

# In nats: a larger tilt moves a ratio no further than this one, to all the digits there are.
LARGEST = 300.0


class Matrix(NamedTuple):
    """x → (a·x + b)/(c·x + d), entries non-negative, with its determinant; only their ratios matter.

    The determinant is carried along because a·d − b·c would cancel in a long product.
    """

    a: float
    b: float
    c: float
    d: float
    determinant: float

    def __call__(self, x: float) -> float:
        """The image of x; of infinity too."""
        if x == math.inf:
            return self.a / self.c if self.c else math.inf
        below = self.c * x + self.d
        # Where huge tilts have left nothing of b and d, the image of 0 is not above that of infinity.
        return (self.a * x + self.b) / below if below else self.a / self.c

    def then(self, inner: Matrix) -> Matrix:
        """The map x → self(inner(x)), scaled so that a long product neither overflows nor vanishes."""
        a = self.a * inner.a + self.b * inner.c
        b = self.a * inner.b + self.b * inner.d
        c = self.c * inner.a + self.d * inner.c
        d = self.c * inner.b + self.d * inner.d
        scale = 1.0 / max(a, b, c, d)
        return Matrix(
            a * scale, b * scale, c * scale, d * scale, self.determinant * inner.determinant * scale * scale
        )


class Orbit(NamedTuple):
    """The fixed point C∞, κ and log μ of the tick's map."""

    limit: float
    kappa: float
    log_mu: float

    def matrix(self, ticks: int) -> Matrix:
        """The map of so many ticks: [[κ+w, C∞(1−w)], [κ(1−w)/C∞, 1+κw]] with w = μ^ticks."""
        if ticks == 0:
            return Matrix(1.0, 0.0, 0.0, 1.0, 1.0)
        exponent = ticks * self.log_mu
        w, rest = math.exp(exponent), -math.expm1(exponent)
        kappa, limit = self.kappa, self.limit
        return Matrix(kappa + w, limit * rest, kappa * rest / limit, 1.0 + kappa * w, w * (1.0 + kappa) ** 2)

    def after(self, ticks: int, x: float) -> float:
        """The image of x under the map of so many ticks."""
        exponent = ticks * self.log_mu
        w, rest = math.exp(exponent), -math.expm1(exponent)
        kappa, limit = self.kappa, self.limit
        return ((kappa + w) * x + limit * rest) / (kappa * rest / limit * x + 1.0 + kappa * w)

    def from0(self, ticks: int) -> float:
        """C that many ticks before an instant known to be in state 0: C∞·(1 + w/κ)/(1 − w)."""
        exponent = ticks * self.log_mu
        return self.limit * (1.0 + math.exp(exponent) / self.kappa) / -math.expm1(exponent)

    def from1(self, ticks: int) -> float:
        """C that many ticks before an instant known to be in state 1: C∞·(1 − w)/(1 + κ·w)."""
        exponent = ticks * self.log_mu
        return self.limit * -math.expm1(exponent) / (1.0 + self.kappa * math.exp(exponent))

    def knowns(self, ticks: int) -> tuple[float, float]:
        """Both of these at once."""
        exponent = ticks * self.log_mu
        w, rest = math.exp(exponent), -math.expm1(exponent)
        return self.limit * (1.0 + w / self.kappa) / rest, self.limit * rest / (1.0 + self.kappa * w)


def tick(q: float, r: float, tau: float) -> Matrix:
    """The map of one tick with tilt τ towards 0, divided by m; any q and r."""
    shrink = math.exp(-min(tau, LARGEST))
    return Matrix(1.0 - q, q * shrink, r, (1.0 - r) * shrink, (1.0 - q - r) * shrink)


def orbit(q: float, r: float, tau: float) -> Orbit:
    """The orbit of ticks with tilt τ towards 0 on a chain with q+r < 1; C∞ is not below the true one."""
    if tau == 0.0:
        return Orbit(1.0, r / q, math.log1p(-(q + r)))
    tau = min(tau, LARGEST)
    shrink = math.exp(-tau)  # all entries are divided by m, so that nothing overflows
    b, d = q * shrink, (1.0 - r) * shrink
    limit, spread = fixed_point(1.0 - q, b, r, d, (r - q) - (1.0 - r) * math.expm1(-tau))
    larger = r * limit + d
    gap = spread / larger  # 1 − μ
    # Near 1, μ comes from the eigenvalues' gap; near 0, from their product λ·m.
    log_mu = math.log1p(-gap) if gap < 0.5 else math.log1p(-(q + r)) - tau - 2.0 * math.log(larger)
    return Orbit(limit, limit * limit * r / b, log_mu)


def fixed_point(a: float, b: float, c: float, d: float, difference: float) -> tuple[float, float]:
    """The attracting fixed point of x → (a·x+b)/(c·x+d), and the gap between the matrix's eigenvalues.

    The difference a−d comes separately, computed without cancellation; its rounding error is added to it,
    since the fixed point rises with it.
    """
    difference += 8.0 * UNIT * (a + d)
    spread = math.sqrt(difference * difference + 4.0 * b * c)
    if difference >= 0.0:
        return (difference + spread) / (2.0 * c), spread
    return 2.0 * b / (spread - difference), spread
