"""How much more than nothing a known instant can tell, by its distance, whatever the tilts in between.

Let C be the ratio with nothing known, C_p the one with the instant p known, and B_p what p alone says. The excess
log(C_p/C) − log B_p is all that knowing p adds. Both logarithms shrink at every tick towards 0, the first at a
rate that depends on where the ratio is, ξ = m·C, the second as at ξ = 1:

    X_ξ(x) = log φ(ξ·e^x) − log φ(ξ),   φ(s) = (s + a)/(s + b) up to a factor, a < b.

So with ξ known to lie in [low, high] the excess at distance l is at most its largest value over all sequences of
such ξ, and since X is monotone in x that value follows step by step (docs/theory.md, Lemma 5).

For q+r < 1, a = q/(1−q) and b = (1−r)/r. For q+r > 1 every second instant is relabelled, and steps of two kinds take
turns: a = (1−q)/q, b = r/(1−r) and the same with q and r swapped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate

# An excess below this is as good as none, and is returned in place of smaller ones.
NOTHING = 2.0**-36


class Envelope:
    """Bounds on the excess at each distance, for one chain with q+r ≠ 1 and one range of ξ."""

    def __init__(self, q: float, r: float, low: float, high: float, *, soft: bool) -> None:
        self._low, self._high = low, high
        if q + r < 1.0:
            self._kinds = [(q / (1.0 - q), (1.0 - r) / r)]
        else:
            self._kinds = [((1.0 - q) / q, r / (1.0 - r)), ((1.0 - r) / r, q / (1.0 - q))]
        excesses = self._soft() if soft else self._hard()
        # What lies beyond a distance is bounded by the largest excess from there on.
        self._beyond = list(accumulate(reversed(excesses), max, initial=NOTHING))[::-1]

    def beyond(self, distance: int) -> float:
        """The largest excess of any instant further away than the distance."""
        return self._beyond[distance] if distance < len(self._beyond) else NOTHING

    def _hard(self) -> list[float]:
        """The largest excess of an instant known for certain, by its distance."""
        excesses = []
        # One chain of values for each kind of step that may come last: from a known 0 and from a known 1.
        ups, downs = [math.inf] * len(self._kinds), [-math.inf] * len(self._kinds)
        base_ups, base_downs = ups, downs
        while max(*ups, *base_ups) > NOTHING or min(*downs, *base_downs) < -NOTHING:
            # X_ξ(x) has one peak in ξ, so its smallest value is at an end.
            ups = self._turn(
                lambda kind, x: max(
                    self._step(kind, xi, x) for xi in (self._low, self._high, self._peak(kind, x))
                ),
                ups,
            )
            downs = self._turn(
                lambda kind, x: max(self._step(kind, xi, x) for xi in (self._low, self._high)), downs
            )
            base_ups, base_downs = self._bases(base_ups), self._bases(base_downs)
            gains = (up - base for up, base in zip((*ups, *downs), (*base_ups, *base_downs), strict=True))
            excesses.append(max(gains))
        return excesses

    def _soft(self) -> list[float]:
        """The largest excess with soft evidence, by the distance of the instant.

        Whatever the evidence, the excess starts at −log C ≤ 0, and the logarithm of the base lies between those
        of instants known l and l+1 ticks away. So from one distance to the next, X_ξ(β + excess) − X_1(β) is
        maximised over that range of β and the range of ξ.
        """
        excesses = []
        above, below = [0.0] * len(self._kinds), [0.0] * len(self._kinds)
        ups, downs = [math.inf] * len(self._kinds), [-math.inf] * len(self._kinds)
        while max(*above, *below, *ups) > NOTHING or min(downs) < -NOTHING:
            next_ups, next_downs = self._bases(ups), self._bases(downs)
            above = [
                self._largest(kind, above[kind - 1], next_ups[kind - 1], ups[kind - 1])
                for kind in range(len(self._kinds))
            ]
            below = [
                self._largest(kind, below[kind - 1], downs[kind - 1], next_downs[kind - 1])
                for kind in range(len(self._kinds))
            ]
            ups, downs = next_ups, next_downs
            excesses.append(max(*above, *below))
        return excesses

    def _turn(self, step: Callable[[int, float], float], values: list[float]) -> list[float]:
        """One more step of each kind, after steps that ended with the other kind (index −1 is the other)."""
        return [step(kind, values[kind - 1]) for kind in range(len(self._kinds))]

    def _bases(self, values: list[float]) -> list[float]:
        return self._turn(lambda kind, x: self._step(kind, 1.0, x), values)

    def _largest(self, kind: int, excess: float, low: float, high: float) -> float:
        """The largest X_ξ(β + excess) − X_1(β) for β in [low, high] and ξ in its range."""
        a, b = self._kinds[kind]
        places = []
        for xi in (self._low, self._high):
            crossing = 0.5 * (math.log(a * b / xi) - excess)  # ξ·e^{2β + excess} = ab
            places += [(xi, low), (xi, high), (xi, min(max(crossing, low), high))]
        places += [(self._peak(kind, beta + excess), beta) for beta in (low, high)]
        inside = (math.log(a * b) - excess) / 3.0  # both at once: ξ = e^β
        if low < inside < high and self._low < math.exp(inside) < self._high:
            places.append((math.exp(inside), inside))
        return max(self._step(kind, xi, beta + excess) - self._step(kind, 1.0, beta) for xi, beta in places)

    def _peak(self, kind: int, x: float) -> float:
        """The ξ in its range where X_ξ(x) is largest: ξ·e^{x/2} = √(ab), or the end next to it."""
        a, b = self._kinds[kind]
        peak = math.sqrt(a * b) * math.exp(min(-0.5 * x, 700.0))
        return min(max(peak, self._low), self._high)

    def _step(self, kind: int, xi: float, x: float) -> float:
        """X_ξ(x)."""
        a, b = self._kinds[kind]
        here = (xi + b) / (xi + a)
        if x > 700.0:
            return math.log(here)
        there = xi * math.exp(x)
        return math.log((there + a) / (there + b) * here)
