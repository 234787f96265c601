"""Memoised randomized response against the definition: all paths and all tables of answers."""

from __future__ import annotations

import itertools
import math

import pytest

from hushmq.pufferfish.papers.memoised_response import flip_probability, worst_loss


def enumerated(q: float, r: float, epsilon: float, length: int) -> float:
    """The largest loss over all instants and all answers, by summing over paths and tables."""
    steps, start = ((1 - q, q), (r, 1 - r)), (r / (q + r), q / (q + r))
    flip = flip_probability(epsilon)
    told: dict[tuple[int, ...], dict[tuple[int, int], float]] = {}
    for path in itertools.product((0, 1), repeat=length):
        chance = start[path[0]] * math.prod(steps[a][b] for a, b in itertools.pairwise(path))
        for table in itertools.product((0, 1), repeat=2):
            drawn = math.prod(1 - flip if answer == state else flip for state, answer in enumerate(table))
            given = told.setdefault(tuple(table[state] for state in path), {})
            for i, state in enumerate(path):
                given[i, state] = given.get((i, state), 0.0) + chance * drawn / start[state]
    return max(
        abs(math.log(given[i, 0] / given[i, 1]))
        for given in told.values()
        for i in range(length)
        if given.get((i, 0), 0.0) > 0.0 and given.get((i, 1), 0.0) > 0.0
    )


@pytest.mark.parametrize("length", [1, 2, 3, 5, 7])
@pytest.mark.parametrize(("q", "r"), [(0.2, 0.2), (0.05, 0.3), (0.4, 0.1), (0.6, 0.7)])
def test_it_is_the_definition(q: float, r: float, length: int) -> None:
    """Equal to the enumeration, so 0.1% more or less would be noticed."""
    assert worst_loss(q, r, 2.0, length) == pytest.approx(enumerated(q, r, 2.0, length), rel=1e-9)


def test_only_a_symmetric_chain_keeps_the_promise() -> None:
    """With q = r the whole stream costs ε; otherwise it costs more with every tick."""
    assert worst_loss(0.1, 0.1, 2.0, 1000) == pytest.approx(2.0)
    lost = [worst_loss(0.0893, 0.1092, 2.0, ticks) for ticks in (10, 100, 1000)]
    assert 2.0 < lost[0] < lost[1] < lost[2]
    assert lost[2] > 20
