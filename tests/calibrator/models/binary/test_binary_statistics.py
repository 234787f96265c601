"""What is counted, and how much one state can move it."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from hushmq.calibrator.models.binary.binary_statistics import REACH, BinarySums, sums_of
from hushmq.calibrator.models.lag_bands import BANDS
from hushmq.calibrator.models.window_count import runs


def plain(states: bytes) -> tuple[int, list[int], list[int]]:
    """The same sums by their definition."""
    starts = [max(0, len(states) - last) for _, last in BANDS]
    changes = [
        sum(states[t] != states[t + lag] for t in range(n) for lag in range(first, last + 1))
        for n, (first, last) in zip(starts, BANDS, strict=True)
    ]
    return sum(states), starts, changes


@pytest.mark.parametrize("length", [1, 2, 5, 13, 40, 41, 42, 64, 65, 200, 777])
def test_sums_are_their_definition(length: int) -> None:
    """Counted by shifts of one integer or by looping over ticks and lags: the same numbers."""
    states = bytes(random.Random(length).choices((0, 1), k=length))
    sums = BinarySums()
    sums.add(states)
    assert (sums.ones, sums.starts, sums.changes) == plain(states)
    assert sums.ticks == length


def test_runs_add_up_and_gaps_are_not_bridged() -> None:
    """Two runs give the sum of their sums: no pair reaches over the gap."""
    one, two = bytes([1, 0, 1, 1] * 30), bytes([0, 0, 1] * 25)
    apart = BinarySums()
    for states in (one, two):
        apart.add(states)
    expected = [plain(states) for states in (one, two)]
    assert apart.ones == sum(ones for ones, _, _ in expected)
    assert apart.changes == [sum(pair) for pair in zip(*(changes for _, _, changes in expected), strict=True)]


def test_pieces_are_joined_where_they_touch() -> None:
    """Batches that follow each other are one run; a missing tick begins another."""
    assert list(runs([(10, b"\1\0"), (12, b"\1"), (14, b"\0"), (15, b"\1")])) == [b"\1\0\1", b"\0\1"]
    assert list(runs([])) == []


@pytest.mark.parametrize("ticks", [2, 13, 30, 41, 160])
def test_one_state_moves_each_sum_by_its_reach_and_no_more(ticks: int) -> None:
    """The claimed reaches bound every flip in every sequence tried, and in a long window one flip attains them all."""
    rng = random.Random(5)
    together = 0
    sequences = [bytes(rng.choices((0, 1), weights=(1, w), k=ticks)) for w in (0, 1, 3) for _ in range(6)]
    for states, flipped in itertools.product(sequences, range(ticks)):
        other = bytearray(states)
        other[flipped] ^= 1
        sums = [BinarySums(), BinarySums()]
        for target, sequence in zip(sums, (states, bytes(other)), strict=True):
            target.add(sequence)
        moved = [abs(a - b) for (a,), (b,) in zip(*(one.groups for one in sums), strict=True)]
        assert all(by <= most for by, most in zip(moved, REACH, strict=True))
        together += tuple(moved) == REACH
    assert together or ticks <= 2 * BANDS[-1][1]


@pytest.mark.parametrize("length", [1, 2, 5, 14, 40, 41, 63, 64, 65, 104, 105, 128, 129, 200, 360])
def test_many_runs_at_once_have_the_sums_of_each(length: int) -> None:
    """Words of 64 ticks lose no change at their edges, whatever the length."""
    rng = np.random.default_rng(length)
    states = [rng.integers(0, 2, size=length, dtype=np.uint8).tobytes() for _ in range(7)]
    wanted = []
    for run in states:
        wanted.append(BinarySums())
        wanted[-1].add(run)
    assert sums_of(states) == wanted
