"""The hull of all sets is the step of Theorem 8: the largest over rows and sets, and not less by a little."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hushmq.pufferfish.categorical.hull_side import HullStep
from hushmq.pufferfish.categorical.set_hull import side_of, step_hulls
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from tests.pufferfish.categorical.test_set_excesses import CLASSES, intervals

SIZES = [1e-6, 1e-3, 0.1, 0.7, 2.0, 9.0]


def largest_over_sets(bounds: TransitionIntervals, D: float) -> float:
    """max log (1 + g·a(S))/(1 + g·b(S)) over ordered pairs of states and sets, one by one."""
    gain, worst = math.expm1(D), 0.0
    states = range(bounds.k)
    for x, y in itertools.permutations(states, 2):
        for size in range(1, bounds.k):
            for inside in itertools.combinations(states, size):
                outside = [u for u in states if u not in inside]
                a = min(
                    math.fsum(bounds.high[x][u] for u in inside),
                    1 - math.fsum(bounds.low[x][u] for u in outside),
                )
                b = max(
                    math.fsum(bounds.low[y][u] for u in inside),
                    1 - math.fsum(bounds.high[y][u] for u in outside),
                    0.0,
                )
                worst = max(worst, math.log1p(gain * a) - math.log1p(gain * b))
    return worst


@pytest.mark.parametrize(("k", "leave", "width"), CLASSES)
@pytest.mark.parametrize("hops", [1, 2, 4])
def test_a_step_is_the_largest_over_all_sets(k: int, leave: float, width: float, hops: int) -> None:
    """Of powers too, and for every D: no less, and no more than rounding."""
    rows = intervals(k, leave, width, seed=k)
    hull = step_hulls(np, rows, (1, 2, 4))[hops]
    side = side_of(hull)
    assert side is not None
    for D in SIZES:
        truth = largest_over_sets(rows.power(hops), D)
        for found in (side.advance(0.0, 1, D), HullStep(hull).step(D)):
            assert truth * (1 - 1e-9) <= found <= truth * (1 + 1e-7)


@pytest.mark.parametrize("hops", [1, 2, 4, 8, 16])
def test_rows_that_are_alike_divide_by_no_rounding_error(hops: int) -> None:
    """One interval for staying and one for moving in all rows, as policies state it: many sets have the same point."""
    rows = TransitionIntervals(
        *(
            tuple(tuple(stay if u == x else move for u in range(4)) for x in range(4))
            for stay, move in ((0.35, 0.1), (0.6, 0.25))
        )
    )
    hull = step_hulls(np, rows, (1, 2, 4, 8, 16))[hops]
    side = side_of(hull)
    assert side is not None
    for D in SIZES:
        truth = largest_over_sets(rows.power(hops), D)
        for found in (side.advance(0.0, 1, D), HullStep(hull).step(D)):
            assert truth * (1 - 1e-9) <= found <= truth * (1 + 1e-7)


@pytest.mark.parametrize(("k", "leave", "width"), CLASSES)
def test_powers_are_those_of_plain_python(k: int, leave: float, width: float) -> None:
    """The bounds of P^16 with numpy contain those without, up to rounding, through the step that they give."""
    rows = intervals(k, leave, width, seed=k + 1)
    hull = step_hulls(np, rows, (16,))[16]
    side = side_of(hull)
    assert side is not None
    assert side.advance(0.0, 1, 1.0) == pytest.approx(largest_over_sets(rows.power(16), 1.0), rel=1e-7)


def test_a_row_that_excludes_a_set_still_proves_something() -> None:
    """With an impossible transition a step of one tick is no `ChangingSide`, but the largest over all sets too."""
    rows = TransitionIntervals.point([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]])
    hulls = step_hulls(np, rows, (1, 2))
    assert side_of(hulls[1]) is None
    assert side_of(hulls[2]) is not None
    for hops, D in itertools.product((1, 2), SIZES):
        truth = largest_over_sets(rows.power(hops), D)
        assert truth * (1 - 1e-9) <= HullStep(hulls[hops]).step(D) <= truth * (1 + 1e-7) < D
