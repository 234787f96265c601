"""Groups of releases say what reading every release in full says."""

from __future__ import annotations

import json

import pytest

from hushmq.console.store.release_groups import MOST, grouped_releases
from hushmq.console.store.release_series import release_point
from tests.console.stored_releases import payload

ODD = ('],"frequencies":[9', 'ü"frequencies')


@pytest.mark.parametrize("count", [1, MOST, MOST + 1, 3 * MOST + 7])
@pytest.mark.parametrize("states", [("a", "b"), ODD])
def test_groups_have_the_extremes_of_all(count: int, states: tuple[str, str]) -> None:
    """Whatever the states are called."""
    stored = [payload(n, (n * 37 % 101) / 101, states=states) for n in range(count)]
    found = grouped_releases(stored, 50)
    assert found is not None
    points, done = [release_point(one) for one in stored], 0
    for one in found.groups:
        mine = points[done : done + one.count]
        done += one.count
        assert one.last == mine[-1]
        assert one.low == tuple(min(each.frequencies[n] for each in mine) for n in (0, 1))
        assert one.high == tuple(max(each.frequencies[n] for each in mine) for n in (0, 1))
    assert done == found.count == count
    assert len(found.groups) <= MOST
    assert found.grouped == (count > MOST)
    assert list(found.listed) == points[-50:]


def test_other_bytes_of_the_same_release_are_read_alike() -> None:
    """With spaces, or letters written as escapes: slower, not otherwise."""
    stored = [payload(n, n / 1000, states=ODD) for n in range(2 * MOST)]
    spaced = [json.dumps(json.loads(one)).encode() for one in stored]
    assert grouped_releases(spaced, 3) == grouped_releases(stored, 3)


def test_releases_of_other_states_are_left_out() -> None:
    """Of what a policy before said; and where there is nothing, there are no groups."""
    stored = [payload(n, 0.5, states=("x", "y") if n < 3 else ("x", "z")) for n in range(5)]
    found = grouped_releases(stored, 50)
    assert found is not None
    assert [one.entry for one in found.listed] == [4, 5]
    assert grouped_releases([], 50) is None
