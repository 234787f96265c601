"""The searches find what complete enumeration finds, for any influence that falls with distance."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.quilt.laplace_scale import NO_QUILT, Quilt
from hushmq.pufferfish.quilt.quilt_search import (
    EndDistances,
    Influence,
    ScoredQuilt,
    _blocks,
    _midpoints,
    best_quilt,
    score,
    worst_node,
)


class Falling:
    """An influence made of steps that never rise in either distance, the same at every node."""

    def __init__(self, left: list[float], right: list[float], joint: float) -> None:
        self.left, self.right, self.joint = left, right, joint

    def __call__(self, a: int | None, b: int | None) -> float:
        first = 0.0 if a is None else self.left[min(a, len(self.left)) - 1]
        second = 0.0 if b is None else self.right[min(b, len(self.right)) - 1]
        return max(first, second) + self.joint * min(first, second)

    def at(self, i: int) -> Influence:
        return self

    def from_on(self, i: int) -> Influence | None:
        return self

    def at_infinity(self) -> Influence | None:
        return self


class Wavering(Falling):
    """The same, but stronger at some nodes; nothing is known of later ones."""

    def __init__(self, base: Falling, factors: list[float]) -> None:
        super().__init__(base.left, base.right, base.joint)
        self.factors = factors

    def at(self, i: int) -> Influence:
        return lambda a, b: self(a, b) * (self.factors[i - 1] if a is not None else 1.0)

    def from_on(self, i: int) -> Influence | None:
        return None


steps = st.lists(st.floats(0, 1), min_size=1, max_size=12).map(
    lambda xs: sorted([3 * x**2 for x in xs], reverse=True)
)
fallings = st.builds(Falling, steps, steps, st.floats(0, 1))
epsilons = st.sampled_from([0.05, 0.5, 1.0, 4.0])


def all_quilts(sides: EndDistances, farthest: int) -> list[Quilt]:
    ends = [*range(1, farthest), None]
    return [sides.clip(a, b) for a, b in itertools.product(ends, ends)]


def enumerated(sides: EndDistances, influence: Influence, epsilon: float) -> float:
    return min(score(sides, influence, epsilon, quilt) for quilt in all_quilts(sides, 40))


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(fallings, st.integers(1, 25), st.integers(1, 25), epsilons)
def test_best_quilt_is_the_best_of_all(influence: Falling, left: int, right: int, epsilon: float) -> None:
    """Branch and bound leaves out nothing better, and the score it returns is its quilt's."""
    sides = EndDistances(left, right)
    found = best_quilt(sides, influence, epsilon)
    assert found.score == pytest.approx(enumerated(sides, influence, epsilon), rel=1e-12)
    assert found.score == score(sides, influence, epsilon, found.quilt)


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(fallings, st.integers(1, 30), epsilons, st.data())
def test_worst_node_is_the_worst_of_all(influence: Falling, length: int, epsilon: float, data) -> None:
    """No node that is left unsearched needs more, whether later nodes are known to be better or not."""
    factors = data.draw(st.lists(st.sampled_from([0.2, 1.0, 1.5]), min_size=length, max_size=length))
    for belief in (influence, Wavering(influence, factors)):
        expected = max(
            enumerated(EndDistances(i, length + 1 - i), belief.at(i), epsilon) for i in range(1, length + 1)
        )
        assert worst_node(belief, length, epsilon).score == pytest.approx(expected, rel=1e-11)


def test_near_counts_the_instants_between_the_ends() -> None:
    """SWC Lemma 4.6: {i−a, i+b} leaves a+b−1 instants near; a missing end leaves all up to the chain's."""
    sides = EndDistances(4, 7)  # node 4 of 10
    assert sides.near((2, 3)) == 4
    assert sides.near((None, 3)) == 6
    assert sides.near((2, None)) == 8
    assert sides.near(NO_QUILT) == 10
    assert EndDistances(4, None).near((2, None)) == math.inf
    assert sides.clip(4, 6) == (None, 6)
    assert sides.clip(3, 7) == (3, None)


def test_a_chain_that_never_forgets_has_no_endless_quilt() -> None:
    """Without an end and without forgetting there is no finite score; with an end there is the trivial quilt."""
    never = Falling([5.0], [5.0], 1.0)
    assert best_quilt(EndDistances(None, None), never, 1.0) == ScoredQuilt(math.inf, NO_QUILT)
    assert best_quilt(EndDistances(3, 5), never, 1.0) == ScoredQuilt(7.0, NO_QUILT)
    with pytest.raises(ValueError, match="forgets too slowly"):
        worst_node(never, None, 1.0)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 100])
def test_every_node_is_visited_once(length: int) -> None:
    """Blocks cover the chain, midpoints cover each block."""
    nodes = [i for first, last in _blocks(length) for i in _midpoints(first, last)]
    assert sorted(nodes) == list(range(1, length + 1))
    assert list(itertools.islice(_blocks(None), 4)) == [(1, 1), (2, 2), (3, 4), (5, 8)]
