"""TickRuns behaves as the set of ticks that it represents."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmq.broker.contract.tick_runs import TickRuns

RUN = st.tuples(st.integers(0, 60), st.integers(0, 8)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(st.tuples(st.booleans(), RUN), max_size=40), RUN)
def test_runs_are_a_set_in_fewest_pieces(
    changes: list[tuple[bool, tuple[int, int]]], probe: tuple[int, int]
) -> None:
    runs, model = TickRuns(), set[int]()
    for add, (first, last) in changes:
        ticks = set(range(first, last + 1))
        if add:
            runs.add(first, last)
            model |= ticks
        else:
            assert runs.remove(first, last) == len(model & ticks)
            model -= ticks
    assert {tick for first, last in runs for tick in range(first, last + 1)} == model
    assert runs.last == max(model, default=None)
    assert len(runs) == len(list(runs))
    assert all(before[1] + 1 < after[0] for before, after in pairwise(runs))
    probed = set(range(probe[0], probe[1] + 1))
    assert runs.overlaps(*probe) == bool(model & probed)
    missing = runs.missing(*probe)
    assert [tick for first, last in missing for tick in range(first, last + 1)] == sorted(probed - model)
    assert all(before[1] + 1 < after[0] for before, after in pairwise(missing))
    assert list(TickRuns(reversed(list(runs)))) == list(runs)
    newest = list(runs)[-3:]
    runs.keep_newest(3)
    assert list(runs) == newest


def test_an_empty_run_is_refused() -> None:
    runs = TickRuns([(3, 5)])
    with pytest.raises(ValueError, match="4 … 3"):
        runs.add(4, 3)
    assert runs.remove(4, 3) == 0
    assert runs.missing(4, 3) == []
    assert list(runs) == [(3, 5)]
