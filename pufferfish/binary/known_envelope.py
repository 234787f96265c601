"""An upper bound, by distance, on what a known state adds to the prior adversary's log-ratio (docs/theory.md, Lemma 5).

Let C be the likelihood ratio without known states, C_p the ratio with the state at instant p known, and B_p the ratio
P(X_p | 0)/P(X_p | 1) of that state alone. Knowing X_p adds the excess log(C_p/C) − log B_p. Each tick maps both
logarithms towards 0, the first by X_ξ with ξ = m·C, the second by X_1:

    X_ξ(x) = log φ(ξ·e^x) − log φ(ξ),   φ(s) = (s + a)/(s + b) up to a factor, a < b.

If ξ lies in [low, high], the excess at distance l is at most its maximum over all sequences of such ξ. X_ξ is
increasing in x, so maximising each step gives that maximum.

For q+r < 1, a = q/(1−q) and b = (1−r)/r. For q+r > 1 every second instant is relabelled, and steps of two forms
alternate: a = (1−q)/q, b = r/(1−r), and the same with q and r swapped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate

# Smaller excesses are not computed; this value bounds them.
NEGLIGIBLE = 2.0**-36


class Envelope:
    """Upper bounds on the excess at each distance, for one chain with q+r ≠ 1 and one range of ξ."""

    def __init__(self, q: float, r: float, low: float, high: float) -> None:
        self._low, self._high = low, high
        if q + r < 1.0:
            self._forms = [(q / (1.0 - q), (1.0 - r) / r)]
        else:
            self._forms = [((1.0 - q) / q, r / (1.0 - r)), ((1.0 - r) / r, q / (1.0 - q))]
        excesses = self._excesses_of_known_states()
        # Running maxima from the far end.
        self._beyond = list(accumulate(reversed(excesses), max, initial=NEGLIGIBLE))[::-1]

    def beyond(self, distance: int) -> float:
        """Upper bound on the excess of every instant farther away than `distance`."""
        return self._beyond[distance] if distance < len(self._beyond) else NEGLIGIBLE

    def _excesses_of_known_states(self) -> list[float]:
        """The largest excess of a known state at distances 1, 2, …"""
        excesses = []
        # One sequence per form of the last step: starting from a known 0 and from a known 1.
        above_known, below_known = [math.inf] * len(self._forms), [-math.inf] * len(self._forms)
        untilted_above, untilted_below = above_known, below_known
        while (
            max(*above_known, *untilted_above) > NEGLIGIBLE
            or min(*below_known, *untilted_below) < -NEGLIGIBLE
        ):
            # X_ξ(x) is unimodal in ξ, so its smallest value is at an end.
            above_known = self._advance(
                lambda form, x: max(
                    self._step(form, xi, x) for xi in (self._low, self._high, self._worst_xi(form, x))
                ),
                above_known,
            )
            below_known = self._advance(
                lambda form, x: max(self._step(form, xi, x) for xi in (self._low, self._high)), below_known
            )
            untilted_above, untilted_below = (
                self._advance_untilted(untilted_above),
                self._advance_untilted(untilted_below),
            )
            gains = (
                up - base
                for up, base in zip(
                    (*above_known, *below_known), (*untilted_above, *untilted_below), strict=True
                )
            )
            excesses.append(max(gains))
        return excesses

    def _advance(self, step: Callable[[int, float], float], values: list[float]) -> list[float]:
        """Appends a step of each form to the sequences that end with the other form (index −1 is the other)."""
        return [step(form, values[form - 1]) for form in range(len(self._forms))]

    def _advance_untilted(self, values: list[float]) -> list[float]:
        return self._advance(lambda form, x: self._step(form, 1.0, x), values)

    def _worst_xi(self, form: int, x: float) -> float:
        """The ξ in [low, high] that maximises X_ξ(x): ξ·e^{x/2} = √(ab), or the nearer end."""
        a, b = self._forms[form]
        peak = math.sqrt(a * b) * math.exp(min(-0.5 * x, 700.0))
        return min(max(peak, self._low), self._high)

    def _step(self, form: int, xi: float, x: float) -> float:
        """X_ξ(x)."""
        a, b = self._forms[form]
        here = (xi + b) / (xi + a)
        if x > 700.0:
            return math.log(here)
        there = xi * math.exp(x)
        return math.log((there + a) / (there + b) * here)
