"""The search for the largest argument within a bound."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmq.pufferfish.false_position import largest_within


@given(root=st.floats(1e-9, 1.0), power=st.floats(0.2, 5.0), bound=st.floats(1e-3, 1e3))
def test_it_is_tried_within_and_as_large_as_promised(root: float, power: float, bound: float) -> None:
    """What is returned is within the bound, and a little more is not."""

    def function(x: float) -> float:
        return bound * (x / root) ** power

    found = largest_within(function, bound, 1.0, 1e-9)
    assert function(found) <= bound
    assert found >= root * (1 - 1e-8)


def test_few_steps_are_enough() -> None:
    """A smooth function takes at most a few dozen evaluations, also from far away."""
    looks = []
    largest_within(lambda x: looks.append(x) or math.expm1(3 * x), 1e-3, 1.0, 1e-10)
    assert len(looks) < 40


def test_all_of_it_may_be_within() -> None:
    """The search does not go beyond the end."""
    assert largest_within(lambda x: x, 2.0, 1.0, 1e-9) == 1.0


@pytest.mark.parametrize("jump", [math.inf, 5.0])
def test_a_jump_is_found(jump: float) -> None:
    """A function that jumps over the bound, to infinity too, is followed up to the jump."""
    found = largest_within(lambda x: 0.1 * x if x < 0.3 else jump, 1.0, 1.0, 1e-9)
    assert found == pytest.approx(0.3, rel=1e-8)


def test_where_nothing_is_within_it_says_so() -> None:
    """A function above the bound everywhere has no answer."""
    with pytest.raises(ValueError, match="nothing above 0 stays within 1"):
        largest_within(lambda x: math.inf, 1.0, 1.0, 1e-9)
