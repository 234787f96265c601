"""Prices a stream that publishes one of every m ticks, in strides (docs/theory-regimes.md, Theorem R5).

With λ = (1−α)/(1+α), α² = qr/((1−q)(1−r)), the loss is at most twice that of the symmetric chain with P(0→1) =
(1 − λ^m)/2, to the prior adversary, with all tilts halved. It is at least that of m steps of the slowest corner of Θ.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from hushmq.verify.changing_kernels import Step
from hushmq.verify.outward import DOWN, ONE, UP, Interval, exact, largest
from hushmq.verify.tilt_sequence import Stretch, Tilts
from hushmq.verify.two_states import TwoStateChain, prior_side

_2 = exact(2)
ROUNDED = Decimal("0.999999999999")
"""Of a correlation this much is surely left, however it was rounded."""


class StridedStates:
    """Θ of two states whose q and r never add up to more than 1, and a stride; NotImplementedError for others."""

    def __init__(self, theta: dict[str, Any], stride: int) -> None:
        q, r = theta["q"], theta["r"]
        if Fraction(q["high"]) + Fraction(r["high"]) > 1:
            raise NotImplementedError("a stride where q + r may exceed 1")
        alpha = Step(q["low"], r["low"], None).alpha
        correlation = UP.divide(UP.subtract(Decimal(1), alpha), DOWN.add(Decimal(1), alpha))
        step = DOWN.divide(DOWN.subtract(Decimal(1), _power(correlation, stride)), Decimal(2))
        self._above = TwoStateChain(step, step)
        leave, come = Decimal(q["low"]), Decimal(r["low"])
        left = _power(UP.subtract(Decimal(1), DOWN.add(leave, come)), stride)
        # m steps of the corner, rounded towards more forgetting: what that chain loses is lost.
        share = UP.divide(UP.subtract(Decimal(1), DOWN.multiply(left, ROUNDED)), DOWN.add(leave, come))
        self._below = TwoStateChain(UP.multiply(leave, share), UP.multiply(come, share))

    def loss(self, tilts: Tilts, before: tuple[Stretch, ...], after: tuple[Stretch, ...]) -> Interval:
        """Between what the corner loses and what Theorem R5 says."""
        found = []
        for favoured in (0, 1):
            low = tilts[favoured]
            if not self._below.alternates:
                low += _sides(self._below, favoured, before, after)
            high = halved_loss(self._above, favoured, tilts, before, after)
            found.append(Interval(low.low, high.high))
        return largest(found)


def halved_loss(
    chain: TwoStateChain, favoured: int, tilts: Tilts, before: tuple[Stretch, ...], after: tuple[Stretch, ...]
) -> Interval:
    """Twice the loss of a chain with all tilts halved, to the prior adversary."""
    halves = [tuple(map(_halved, side)) for side in (before, after)]
    return _2 * (_half(tilts[favoured]) + _sides(chain, favoured, *halves))


def _sides(
    chain: TwoStateChain, favoured: int, before: tuple[Stretch, ...], after: tuple[Stretch, ...]
) -> Interval:
    return prior_side(chain, favoured, before) + prior_side(chain, favoured, after)


def _half(one: Interval) -> Interval:
    return one / _2


def _halved(one: Stretch) -> Stretch:
    return Stretch(one.length, Tilts(_half(one.tilts.towards0), _half(one.tilts.towards1)))


def _power(value: Decimal, exponent: int) -> Decimal:
    """A power of a number between 0 and 1, rounded up."""
    found = ONE.high
    while exponent:
        if exponent & 1:
            found = UP.multiply(found, value)
        value, exponent = UP.multiply(value, value), exponent >> 1
    return found
