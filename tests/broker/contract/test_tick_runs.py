"""Runs behave as the sets of ticks they stand for."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hushmq.broker.contract.tick_runs import Runs

RUN = st.tuples(st.integers(0, 60), st.integers(0, 8)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(st.tuples(st.booleans(), RUN), max_size=40), RUN)
def test_runs_are_a_set_in_fewest_pieces(
    changes: list[tuple[bool, tuple[int, int]]], probe: tuple[int, int]
) -> None:
    runs, model = Runs(), set[int]()
    for add, (first, last) in changes:
        ticks = set(range(first, last + 1))
        if add:
            runs.add(first, last)
            model |= ticks
        else:
            assert runs.remove(first, last) == len(model & ticks)
            model -= ticks
    assert {tick for first, last in runs for tick in range(first, last + 1)} == model
    assert runs.ticks == len(model)
    assert all(before[1] + 1 < after[0] for before, after in pairwise(runs))
    assert runs.overlaps(*probe) == bool(model & set(range(probe[0], probe[1] + 1)))
    newest = list(runs)[-3:]
    runs.keep_newest(3)
    assert list(runs) == newest
    assert runs.ticks == sum(last - first + 1 for first, last in newest)
