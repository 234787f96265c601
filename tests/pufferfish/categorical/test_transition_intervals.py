"""Interval classes: whatever is derived from one holds for every chain in it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.transition_intervals import Rows, TransitionIntervals
from hushmq.pufferfish.quilt.markov_chain import Chain

THREE = [[0.9, 0.04, 0.06], [0.05, 0.9, 0.05], [0.02, 0.08, 0.9]]


def rows(matrix: np.ndarray) -> Rows:
    return tuple(tuple(row) for row in matrix.tolist())


def around(P: np.ndarray, width: float, rng: np.random.Generator) -> TransitionIntervals:
    """Intervals that contain this chain, not in their middle."""
    below, above = width * rng.random(P.shape), width * rng.random(P.shape)
    return TransitionIntervals(rows(np.maximum(P - below, 0)), rows(np.minimum(P + above, 1)))


def member(intervals: TransitionIntervals, rng: np.random.Generator) -> np.ndarray:
    """A chain within the intervals: the lower bounds, with the remaining mass distributed in random order."""
    low, high = np.array(intervals.low), np.array(intervals.high)
    P = low.copy()
    for x in range(len(P)):
        left = 1 - P[x].sum()
        for u in rng.permutation(len(P)):
            more = min(left, high[x, u] - low[x, u])
            P[x, u] += more
            left -= more
    return P


def random_class(seed: int) -> tuple[TransitionIntervals, np.random.Generator]:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    stay = rng.choice([0.0, 0.5, 0.95])
    P = stay * np.eye(k) + (1 - stay) * rng.dirichlet(np.full(k, rng.choice([0.3, 1.0, 5.0])), size=k)
    return around(P, 10 ** rng.uniform(-4, -1), rng), rng


def holds(intervals: TransitionIntervals, P: np.ndarray) -> bool:
    return bool(
        np.all(np.array(intervals.low) <= P + 1e-14) and np.all(np.array(intervals.high) + 1e-14 >= P)
    )


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ([[1.0]], [[1.0]], "square matrices of the same size"),
        ([[0.5, 0.5]], [[0.5, 0.5]], "square matrices of the same size"),
        ([[0.5, 0.5], [0.5]], [[0.5, 0.5], [0.5, 0.5]], "row 1 must have 2 entries"),
        ([[0.5, 0.6], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]], "entry 0, 1 must have"),
        ([[0.5, float("nan")], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]], "entry 0, 1 must have"),
        ([[0.0, 0.0], [-0.1, 0.5]], [[0.5, 0.5], [0.5, 0.5]], "entry 1, 0 must have"),
        ([[0.6, 0.5], [0.5, 0.5]], [[0.6, 0.5], [0.5, 0.5]], "row 0 leaves no probabilities"),
        ([[0.1, 0.1], [0.5, 0.5]], [[0.4, 0.5], [0.5, 0.5]], "row 0 leaves no probabilities"),
    ],
)
def test_what_is_no_class_is_refused(low: list[list[float]], high: list[list[float]], message: str) -> None:
    """The message names the row or the entry."""
    with pytest.raises(ValueError, match=message):
        TransitionIntervals(tuple(map(tuple, low)), tuple(map(tuple, high)))


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9))
def test_powers_laws_and_reversals_hold_for_every_member(seed: int, hops: int) -> None:
    """P^h, the stationary law and the time reversal of every chain lie within the derived bounds."""
    intervals, rng = random_class(seed)
    P = member(intervals, rng)
    assert holds(intervals.tightened(), P)
    assert holds(intervals.power(hops), np.linalg.matrix_power(P, hops))
    chain = Chain(P)
    if not chain.is_irreducible():
        return
    low, high = intervals.stationary()
    pi = chain.stationary()
    assert np.all(np.array(low) <= pi + 1e-12)
    assert np.all(pi <= np.array(high) + 1e-12)
    assert holds(intervals.reversal(), chain.reversal().transition)


def test_one_chain_has_one_power_law_and_reversal() -> None:
    """Nothing is given away where nothing is unknown."""
    chain, one = Chain(THREE), TransitionIntervals.point(THREE)
    for derived, truth in (
        (one.power(7), np.linalg.matrix_power(chain.transition, 7)),
        (one.reversal(), chain.reversal().transition),
    ):
        assert np.array(derived.low) == pytest.approx(truth, abs=1e-9)
        assert np.array(derived.high) == pytest.approx(truth, abs=1e-9)
    low, high = one.stationary()
    assert low == pytest.approx(chain.stationary(), abs=1e-9)
    assert high == pytest.approx(chain.stationary(), abs=1e-9)


def test_classes_intersect_join_and_contain() -> None:
    """Hull and intersection are what they say, both ways of time; what has nothing in common says so."""
    P = np.array(THREE)
    small = CategoricalTheta.of(TransitionIntervals(rows(P - 0.01), rows(P + 0.01)))
    wide = CategoricalTheta.of(TransitionIntervals(rows(P - 0.02), rows(P + 0.02)))
    assert wide.contains(small)
    assert not small.contains(wide)
    assert small.hull(wide) == wide
    assert small.intersect(wide) == small
    with pytest.raises(ValueError, match="entry 0, 0"):
        small.forward.intersect(TransitionIntervals.point([[0.5, 0.25, 0.25]] * 3))
    with pytest.raises(ValueError, match="nothing in common"):
        small.forward.intersect(TransitionIntervals.point([[0.5, 0.5]] * 2))


def test_what_is_known_of_the_reversal_narrows_the_class() -> None:
    """`backward` is what forward implies and what is given, together."""
    forward = TransitionIntervals(rows(np.array(THREE) - 0.01), rows(np.array(THREE) + 0.01))
    known = TransitionIntervals.point(Chain(THREE).reversal().transition.tolist())
    assert CategoricalTheta.of(forward).contains(CategoricalTheta.of(forward, known))
    assert CategoricalTheta.of(forward, known).backward == known
