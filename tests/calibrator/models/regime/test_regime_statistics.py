"""What is counted to learn regimes, how much one state can move it, and what a draw of its noise costs."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from hushmq.calibrator.models.regime.long_bands import LONG_BANDS, strided_bands
from hushmq.calibrator.models.regime.regime_statistics import RegimeSums

STRIDES = (1, 2, 5, 30, 200, 2000)


def plain(states: bytes, stride: int) -> tuple[int, list[int], list[int]]:
    """The same sums by their definition, over ticks: only every `stride`-th one has a state."""
    found: tuple[list[int], list[int]] = ([], [])
    for low, high in LONG_BANDS:
        lags = [lag // stride for lag in range(low, high + 1) if lag % stride == 0]
        starts = max(0, len(states) - max(lags)) if lags else 0
        found[0].append(starts)
        found[1].append(sum(states[t] != states[t + lag] for t in range(starts) for lag in lags))
    return sum(states), *found


def counted(states: bytes, stride: int) -> RegimeSums:
    sums = RegimeSums(stride)
    sums.add(states)
    return sums


@pytest.mark.parametrize(
    ("length", "stride"), [(1, 1), (2, 1), (130, 1), (400, 1), (400, 5), (300, 30), (60, 200)]
)
def test_sums_are_their_definition(length: int, stride: int) -> None:
    """By running sums, or by looping over ticks and lags: the same numbers."""
    states = bytes(random.Random(length).choices((0, 1), k=length))
    sums = counted(states, stride)
    assert (sums.ones, sums.starts, sums.changes) == plain(states, stride)
    assert sums.ticks == length


def test_runs_add_up_and_gaps_are_not_bridged() -> None:
    """Two runs give the sum of their sums: no pair reaches over the gap."""
    one, two = bytes([1, 0, 1, 1] * 30), bytes([0, 0, 1] * 25)
    apart = RegimeSums(3)
    for states in (one, two):
        apart.add(states)
    expected = [counted(states, 3) for states in (one, two)]
    assert apart.changes == [a + b for a, b in zip(*(each.changes for each in expected), strict=True)]
    assert apart.starts == [a + b for a, b in zip(*(each.starts for each in expected), strict=True)]


def test_bands_hold_the_multiples_of_the_stride_and_each_once() -> None:
    """Every multiple of the stride up to the last lag is in exactly one band, where its tick is."""
    for stride in STRIDES:
        bands = strided_bands(stride)
        lags = [
            lag
            for first, last, count in zip(bands.first, bands.last, bands.lags, strict=True)
            for lag in range(first, first + count)
            if last >= first
        ]
        assert [lag * stride for lag in lags] == list(range(stride, LONG_BANDS[-1][1] + 1, stride))
    with pytest.raises(ValueError, match="stride is 0"):
        strided_bands(0)


@pytest.mark.parametrize(("ticks", "stride"), [(2, 1), (30, 1), (90, 1), (60, 100), (120, 90)])
def test_one_state_moves_each_sum_by_its_reach_and_no_more(ticks: int, stride: int) -> None:
    """No flip in any sequence tried exceeds the reaches; where all bands fit twice, one flip attains them all."""
    rng = random.Random(5)
    reach, together = strided_bands(stride).reach, 0
    sequences = [bytes(rng.choices((0, 1), weights=(1, w), k=ticks)) for w in (0, 1, 3) for _ in range(4)]
    for states, flipped in itertools.product(sequences, range(ticks)):
        other = bytearray(states)
        other[flipped] ^= 1
        groups = [counted(one, stride).groups for one in (states, bytes(other))]
        moved = [abs(a - b) for (a,), (b,) in zip(*groups, strict=True)]
        assert all(by <= most for by, most in zip(moved, reach, strict=True))
        together += tuple(moved) == reach
    assert bool(together) == (ticks > 2 * strided_bands(stride).last[-1])


def test_a_draw_costs_its_tilt_over_all_streams_and_flips() -> None:
    """Enumerated: streams of eight published ticks, every flip; the level of what it moves is 1 at most, and is 1.

    The noise has P(x) ∝ e^(−tilt·level(x)): a likelihood changes by at most e^tilt exactly if no flip moves the
    numbers by a level above 1. Reaches that are a tenth smaller would not do.
    """
    stride = 700
    reach, length = strided_bands(stride).reach, 8
    sums = {
        states: counted(bytes(states), stride).groups for states in itertools.product((0, 1), repeat=length)
    }

    def level(factor: float) -> int:
        worst = 0
        for states, flipped in itertools.product(sums, range(length)):
            other = (*states[:flipped], 1 - states[flipped], *states[flipped + 1 :])
            moved = [abs(a - b) for (a,), (b,) in zip(sums[states], sums[other], strict=True)]
            worst = max(
                worst, *(math.ceil(by / (factor * a)) for by, a in zip(moved, reach, strict=True) if a)
            )
        return worst

    assert level(1.0) == 1
    assert level(0.9) == 2
