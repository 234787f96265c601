"""What is counted of streams of more than two states, and how much one state can move it."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from hushmq.broker.contract.policy_message import MOST_LEARNED_STATES
from hushmq.calibrator.models.categorical.categorical_statistics import (
    COARSENESS,
    CategoricalSums,
    pairs_of,
    sensitivity,
    sums_of,
)
from hushmq.calibrator.models.lag_bands import BANDS, WIDTHS


def counted(states: bytes, k: int) -> CategoricalSums:
    sums = CategoricalSums(k)
    sums.add(states)
    return sums


@pytest.mark.parametrize("length", [1, 2, 13, 41, 42, 200])
@pytest.mark.parametrize("k", [3, 5])
def test_sums_are_their_definition(length: int, k: int) -> None:
    """Counted by bins of pairs or by looping over ticks and lags: the same numbers."""
    states = bytes(random.Random(length).choices(range(k), k=length))
    sums = counted(states, k)
    assert sums.ticks == length
    assert sums.counts.tolist() == [states.count(u) for u in range(k)]
    for band, (first, last) in enumerate(BANDS):
        starts = max(0, length - last)
        pairs = np.zeros((k, k), dtype=int)
        for t, lag in itertools.product(range(starts), range(first, last + 1)):
            pairs[states[t], states[t + lag]] += 1
        assert sums.starts[band] == starts
        assert sums.pairs[band].tolist() == pairs.tolist()


@pytest.mark.parametrize("length", [1, 14, 64, 65, 104, 300])
@pytest.mark.parametrize("k", [3, 8])
def test_many_runs_at_once_are_one_after_the_other(length: int, k: int) -> None:
    """Counted by bits, all rows at once, or by bins, row by row: the same pairs."""
    states = np.random.default_rng(length).integers(0, k, (5, length), dtype=np.uint8)
    expected = np.array([counted(row.tobytes(), k).pairs for row in states])
    assert (pairs_of(states, k) == expected).all()


def test_runs_add_up_and_gaps_are_not_bridged() -> None:
    """Two runs give the sum of their sums: no pair reaches over the gap."""
    one, two = bytes([1, 0, 2, 2] * 30), bytes([0, 2, 1] * 25)
    apart = counted(one, 3)
    apart.add(two)
    assert (apart.pairs == counted(one, 3).pairs + counted(two, 3).pairs).all()
    assert (apart.counts == counted(one, 3).counts + counted(two, 3).counts).all()


def cost(one: CategoricalSums, two: CategoricalSums) -> float:
    """The distance between two vectors of sums in units of their noise: 1 for `counts`, a band's width × coarseness."""
    bands = np.abs(one.pairs - two.pairs).sum(axis=(1, 2)) / (np.array(WIDTHS) * np.array(COARSENESS))
    return float(np.abs(one.counts - two.counts).sum() + bands.sum())


@pytest.mark.parametrize(("ticks", "bands"), [(1, 0), (2, 1), (30, 3), (41, 4)])
def test_one_state_moves_the_sums_by_no_more_than_the_sensitivity(ticks: int, bands: int) -> None:
    """The claimed sensitivity bounds every change of one state in every sequence tried."""
    rng = random.Random(5)
    for weights in ((1, 0, 0), (1, 1, 1), (5, 1, 1)):
        states = bytes(rng.choices(range(3), weights=weights, k=ticks))
        for changed, to in itertools.product(range(ticks), range(3)):
            other = bytearray(states)
            other[changed] = to
            assert cost(counted(states, 3), counted(bytes(other), 3)) <= sensitivity(bands) + 1e-9


def test_the_sensitivity_is_attained() -> None:
    """In a long window one change moves the sums by all that is claimed: a smaller claim would be false."""
    states = bytearray(160)
    states[80] = 1
    assert cost(counted(bytes(160), 3), counted(bytes(states), 3)) == pytest.approx(sensitivity())


def test_pairs_of_very_many_states_are_not_counted() -> None:
    """Beyond MOST_LEARNED_STATES nothing is learned: only the states themselves are counted, for the histogram."""
    k = MOST_LEARNED_STATES + 1
    sums = counted(bytes(range(k)) * 20, k)
    assert sums.counts.tolist() == [20] * k
    assert sums.starts == [0] * len(BANDS)
    assert not sums.pairs.any()


@pytest.mark.parametrize("k", [3, 4, MOST_LEARNED_STATES + 1])
@pytest.mark.parametrize("length", [1, 41, 64, 65, 200])
def test_many_runs_at_once_have_the_sums_of_each(k: int, length: int) -> None:
    """Ticks, counts, starts and pairs."""
    rng = np.random.default_rng(length)
    states = [rng.integers(0, k, size=length, dtype=np.uint8).tobytes() for _ in range(5)]
    for run, found in zip(states, sums_of(states, k), strict=True):
        wanted = CategoricalSums(k)
        wanted.add(run)
        assert (found.ticks, found.starts, found.groups) == (wanted.ticks, wanted.starts, wanted.groups)
