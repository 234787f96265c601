"""How much more than nothing a known instant can tell, by its distance, whatever the tilts in between.

Let C be the ratio with nothing known, C_p the one with the instant p known, and B_p what p alone says. The excess
log(C_p/C) − log B_p is all that knowing p adds. Both logarithms shrink at every tick towards 0, the first at a
rate that depends on where the ratio is, ξ = m·C, the second as at ξ = 1:

    X_ξ(x) = log φ(ξ·e^x) − log φ(ξ),   φ(s) = (s + a)/(s + b) up to a factor, a = q/(1−q), b = (1−r)/r.

So with ξ known to lie in [low, high] the excess at distance l is at most its largest value over all sequences of
such ξ, and since X is monotone in x that value follows step by step (docs/theory.md, Lemma 5).
"""

from __future__ import annotations

import math
from itertools import accumulate

# An excess below this is as good as none, and is returned in place of smaller ones.
_NOTHING = 2.0**-36


class Envelope:
    """Bounds on the excess at each distance, for one chain with q+r < 1 and one range of ξ."""

    def __init__(self, q: float, r: float, low: float, high: float, *, soft: bool) -> None:
        self._a, self._b = q / (1.0 - q), (1.0 - r) / r
        self._product = self._a * self._b
        self._low, self._high = low, high
        excesses = self._soft() if soft else self._hard()
        # What lies beyond a distance is bounded by the largest excess from there on.
        self._beyond = list(accumulate(reversed(excesses), max, initial=_NOTHING))[::-1]

    def beyond(self, distance: int) -> float:
        """The largest excess of any instant further away than the distance."""
        return self._beyond[distance] if distance < len(self._beyond) else _NOTHING

    def _hard(self) -> list[float]:
        """The largest excess of an instant known for certain, by its distance."""
        excesses = []
        up = base_up = math.inf  # from a known 0
        down = base_down = -math.inf  # from a known 1
        while max(up, base_up, -down, -base_down) > _NOTHING:
            # X_ξ(x) has one peak in ξ, where ξ·e^{x/2} = √(ab): its smallest value is at an end.
            up = max(self._step(xi, up) for xi in (self._low, self._high, self._peak(up)))
            down = max(self._step(xi, down) for xi in (self._low, self._high))
            base_up, base_down = self._step(1.0, base_up), self._step(1.0, base_down)
            excesses.append(max(up - base_up, down - base_down))
        return excesses

    def _soft(self) -> list[float]:
        """The largest excess with soft evidence, by the distance of the instant.

        Whatever the evidence, the excess starts at −log C ≤ 0, and the logarithm of the base lies between those
        of instants known l and l+1 ticks away. So from one distance to the next, X_ξ(β + excess) − X_1(β) is
        maximised over that range of β and the range of ξ.
        """
        excesses = []
        above = below = 0.0
        ups, downs = (math.inf, self._step(1.0, math.inf)), (-math.inf, self._step(1.0, -math.inf))
        while max(above, below, ups[1], -downs[1]) > _NOTHING:
            above = self._largest(above, ups[1], ups[0])
            below = self._largest(below, downs[0], downs[1])
            ups, downs = (ups[1], self._step(1.0, ups[1])), (downs[1], self._step(1.0, downs[1]))
            excesses.append(max(above, below))
        return excesses

    def _largest(self, excess: float, low: float, high: float) -> float:
        """The largest X_ξ(β + excess) − X_1(β) for β in [low, high] and ξ in its range."""
        places = []
        for xi in (self._low, self._high):
            crossing = 0.5 * (math.log(self._product / xi) - excess)  # ξ·e^{2β + excess} = ab
            places += [(xi, low), (xi, high), (xi, min(max(crossing, low), high))]
        places += [(self._peak(beta + excess), beta) for beta in (low, high)]
        inside = (math.log(self._product) - excess) / 3.0  # both at once: ξ = e^β
        if low < inside < high and self._low < math.exp(inside) < self._high:
            places.append((math.exp(inside), inside))
        return max(self._step(xi, beta + excess) - self._step(1.0, beta) for xi, beta in places)

    def _peak(self, x: float) -> float:
        """The ξ in its range where X_ξ(x) is largest."""
        peak = math.sqrt(self._product) * math.exp(min(-0.5 * x, 700.0))
        return min(max(peak, self._low), self._high)

    def _step(self, xi: float, x: float) -> float:
        """X_ξ(x)."""
        a, b = self._a, self._b
        here = (xi + b) / (xi + a)
        if x > 700.0:
            return math.log(here)
        there = xi * math.exp(x)
        return math.log((there + a) / (there + b) * here)
