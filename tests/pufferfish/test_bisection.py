"""Bisection of a predicate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hushmq.pufferfish.bisection import bisection


@given(turn=st.floats(0.0, 10.0), absolute=st.floats(1e-9, 1.0))
def test_the_turn_lies_between_two_points_that_were_tried(turn: float, absolute: float) -> None:
    tried = []
    low, high = bisection(lambda x: tried.append(x) or x <= turn, 0.0, 10.0, absolute=absolute)
    assert low <= turn <= high
    assert high - low <= absolute
    assert {low, high} <= {0.0, 10.0, *tried}


def test_the_precision_may_be_relative() -> None:
    low, high = bisection(lambda x: x <= 1e-20, 0.0, 1.0, relative=1e-6)
    assert low <= 1e-20 <= high
    assert high - low <= 1e-6 * high


def test_so_many_steps_and_no_more() -> None:
    tried = []
    low, high = bisection(lambda x: tried.append(x) or x < 3, 0.0, 10.0, steps=40)
    assert len(tried) == 40
    assert high - low == 10 / 2**40


def test_nothing_to_halve() -> None:
    """An interval that is narrow enough, or empty, comes back as it was, without a try."""
    assert bisection(_never, 1.0, 1.0) == (1.0, 1.0)
    assert bisection(_never, 1.0, 2.0, absolute=1.0) == (1.0, 2.0)


def _never(x: float) -> bool:
    raise AssertionError(f"{x} was tried")
