"""Numbers as intervals that contain the true value: decimal arithmetic, lower ends rounded down and upper ends up.

The module `decimal` rounds + − × ÷ as its context says, exactly; `exp` and `ln` are correctly rounded to nearest, so
the next number below and above encloses them. Floats are converted exactly.
"""

from __future__ import annotations

from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_FLOOR,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
)
from functools import lru_cache
from typing import NamedTuple

DIGITS = 38
"""Significant digits: a product of 2^53 matrices loses 17 of them."""

_TRAPS = [InvalidOperation, DivisionByZero]
DOWN = Context(prec=DIGITS, rounding=ROUND_FLOOR, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=_TRAPS)
UP = Context(prec=DIGITS, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=_TRAPS)


class Interval(NamedTuple):
    """A number between `low` and `high`, both included."""

    low: Decimal
    high: Decimal

    def __add__(self, other: Interval) -> Interval:  # type: ignore[override]
        return Interval(DOWN.add(self.low, other.low), UP.add(self.high, other.high))

    def __sub__(self, other: Interval) -> Interval:
        return Interval(DOWN.subtract(self.low, other.high), UP.subtract(self.high, other.low))

    def __mul__(self, other: Interval) -> Interval:  # type: ignore[override]
        """The product of two numbers that are not negative."""
        return Interval(DOWN.multiply(self.low, other.low), UP.multiply(self.high, other.high))

    def __truediv__(self, other: Interval) -> Interval:
        """The quotient of a number that is not negative and a positive one."""
        return Interval(DOWN.divide(self.low, other.high), UP.divide(self.high, other.low))


def exact(value: float | Decimal) -> Interval:
    """The interval of one number."""
    number = Decimal(value)
    return Interval(number, number)


ZERO, ONE = exact(0), exact(1)


def largest(values: list[Interval]) -> Interval:
    """The largest of several numbers."""
    return Interval(max(value.low for value in values), max(value.high for value in values))


@lru_cache(maxsize=100_000)
def exp(value: Interval) -> Interval:
    """The exponential; exactly 1 for 0."""
    if value == ZERO:
        return ONE
    return Interval(DOWN.next_minus(DOWN.exp(value.low)), UP.next_plus(UP.exp(value.high)))


def ln(value: Interval) -> Interval:
    """The natural logarithm of a positive number; exactly 0 for 1."""
    if value == ONE:
        return ZERO
    return Interval(DOWN.next_minus(DOWN.ln(value.low)), UP.next_plus(UP.ln(value.high)))
