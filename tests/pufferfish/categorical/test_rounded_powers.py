"""Rounding: powers of interval matrices and sums over sets contain the exact ones, whole numbers without rounding."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest

from hushmq.pufferfish.categorical.set_hull import step_hulls
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals

BITS = 40
"""Probabilities are whole multiples of 2^-BITS, so that rows sum to one exactly."""
ONE = 1 << BITS
GAINS = [Fraction(1, 10**9), Fraction(1, 100), Fraction(1), Fraction(100), Fraction(10**9)]

Exact = tuple[list[list[int]], list[list[int]]]
"""Lower and upper bounds, in units of 2^-BITS to some power."""


def random_intervals(k: int, leave: float, width: float, rng: np.random.Generator) -> Exact:
    """Rows around one that leaves its state with this probability, and the relative width of leaving it."""
    low, high = [], []
    for x in range(k):
        away = np.floor(leave * rng.dirichlet(np.ones(k)) * ONE).astype(int).tolist()
        away[x] = 0
        less, more = ([int(one * (1 + sign * width)) for one in away] for sign in (-1, 1))
        less[x], more[x] = ONE - sum(more), ONE - sum(less)
        low.append(less)
        high.append(more)
    return low, high


def tightened(bounds: Exact, one: int) -> Exact:
    """Each bound as tight as the others of its row make it."""
    low = [
        [max(a, one - sum(more) + b) for a, b in zip(less, more, strict=True)]
        for less, more in zip(*bounds, strict=True)
    ]
    high = [
        [min(b, one - sum(less) + a) for a, b in zip(less, more, strict=True)]
        for less, more in zip(*bounds, strict=True)
    ]
    return low, high


def times(first: Exact, after: Exact, one: int) -> Exact:
    """The least and the largest of every entry of a product, with the mass of a row at the extreme entries."""
    found: list[list[list[int]]] = []
    for values, sign in zip(after, (1, -1), strict=True):
        rows = []
        for less, more in zip(*first, strict=True):
            row = []
            for u in range(len(less)):
                column = [line[u] for line in values]
                total, left = sum(a * b for a, b in zip(less, column, strict=True)), ONE - sum(less)
                for v in sorted(range(len(less)), key=lambda v: sign * column[v]):
                    moved = min(left, more[v] - less[v])
                    total, left = total + moved * column[v], left - moved
                row.append(total)
            rows.append(row)
        found.append(rows)
    return tightened((found[0], found[1]), one)


def exact_points(bounds: Exact, one: int) -> list[tuple[Fraction, Fraction]]:
    """The points (b, a): what one row puts on a set at least, and another one at most."""
    k, points = len(bounds[0]), []
    # Of many states the smallest and the largest sets: there are too many others.
    sizes = [size for size in range(1, k) if k <= 8 or not 2 < size < k - 2]
    for size in sizes:
        for inside in combinations(range(k), size):
            outside = [u for u in range(k) if u not in inside]
            most, least = [], []
            for less, more in zip(*bounds, strict=True):
                most.append(min(sum(more[u] for u in inside), one - sum(less[u] for u in outside)))
                least.append(max(sum(less[u] for u in inside), one - sum(more[u] for u in outside)))
            # Of the pairs of different rows those with the largest a and the least b are enough.
            tops = sorted(range(k), key=most.__getitem__)[-2:]
            lows = sorted(range(k), key=least.__getitem__)[:2]
            points += [
                (Fraction(least[y], one), Fraction(most[x], one)) for x in tops for y in lows if x != y
            ]
    return points


@pytest.mark.parametrize("k", [2, 3, 5, 8, 12])
@pytest.mark.parametrize(("leave", "width"), [(1e-6, 0.0), (1e-6, 0.3), (0.01, 0.1), (0.6, 0.5)])
def test_powers_and_sums_contain_the_exact_ones(k: int, leave: float, width: float) -> None:
    """What is stated is never below the exact step, and above it by no more than a few roundings for each tick.

    The latter where all sets are enumerated.
    """
    rng = np.random.default_rng(k)
    exact = random_intervals(k, leave, width, rng)
    floats = [tuple(tuple(one / ONE for one in row) for row in end) for end in exact]
    intervals = TransitionIntervals(floats[0], floats[1])
    hops = (1, 2, 4) if k < 8 else (1, 2)
    hulls = step_hulls(np, intervals, hops)
    power, unit = tightened(exact, ONE), ONE
    for length in range(1, max(hops) + 1):
        if length > 1:
            unit *= ONE
            power = times(exact, power, unit)
        if length not in hops:
            continue
        stated = intervals.power(length)
        for x, u in permutations(range(k), 2):
            assert Fraction(stated.low[x][u]) <= Fraction(power[0][x][u], unit)
            assert Fraction(stated.high[x][u]) >= Fraction(power[1][x][u], unit)
        hull = [(Fraction(b), Fraction(a)) for b, a in hulls[length]]
        points = exact_points(power, unit)
        room = Fraction(8 * k * length, 2**52)
        for gain in GAINS:
            found = max((1 + gain * a) / (1 + gain * b) for b, a in hull)
            assert all(1 + gain * a <= found * (1 + gain * b) for b, a in points)
            near = max((1 + gain * (a + room)) / (1 + gain * max(b - room, Fraction(0))) for b, a in points)
            assert found <= near or k > 8
