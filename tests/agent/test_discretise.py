"""Discretisers map values to states."""

from __future__ import annotations

from typing import Any

import pytest

from hushmq.agent.discretise import BinsDiscretiser, LabelsDiscretiser, discretiser
from hushmq.broker.contract.policy_message import Bins, Labels, Threshold
from tests.agent.peer import stream_policy

CASES: list[tuple[Any, list[Any], list[int], int]] = [
    (Threshold(at=75.0), [74.9, 75.0, 80, -1e300], [0, 1, 1, 0], 0),
    (Threshold(at=75.0, hysteresis=5.0), [76, 71, 69.9, 79.9, 80, 70, 69], [1, 1, 0, 0, 1, 1, 0], 0),
    (Threshold(at=75.0, hysteresis=5.0), [76, None, 74], [1, 0, 0], 0),
    (Threshold(at=0.5), [True, False], [1, 0], 0),
    (Threshold(at=0.0), [float("nan"), float("inf"), "1", 1], [0, 0, 0, 1], 3),
    (Threshold(at=0.0, hysteresis=9.0), [1, "x", 1, -1], [1, 0, 1, 1], 1),
    (Threshold(at=0.0, hysteresis=1.0), [10**400, 1, -(10**400)], [1, 1, 0], 0),
    (Bins(edges=(10.0,), hysteresis=2.0), [9, 11, 12, 9, 7], [0, 0, 1, 1, 0], 0),
    (Labels(), ["low", "high", "middle", 3, None], [0, 1, 0, 0, 0], 2),
    (Labels(aliases={"true": "high", "false": "low", "7": "high"}), [True, False, 7], [1, 0, 1], 0),
]


@pytest.mark.parametrize(("setting", "values", "states", "refused"), CASES)
def test_values_become_states_or_are_refused_and_counted(
    setting: Any, values: list[Any], states: list[int], refused: int
) -> None:
    """A state is kept within the hysteresis; a value that matches no state is the stand-in and is counted."""
    found = discretiser(stream_policy(discretiser=setting))
    assert found.states(values) == states
    assert found.refused == refused


@pytest.mark.parametrize(("setting", "values", "states", "refused"), CASES)
def test_it_does_not_matter_how_ticks_are_grouped_into_beats(
    setting: Any, values: list[Any], states: list[int], refused: int
) -> None:
    found = discretiser(stream_policy(discretiser=setting))
    assert [state for value in values for state in found.states([value])] == states
    assert found.refused == refused


@pytest.mark.parametrize(
    ("hysteresis", "values", "states"),
    [
        (0.0, [-1e9, 9.9, 10, 19.9, 20, 30, 1e9, 0], [0, 0, 1, 1, 2, 3, 3, 0]),
        (2.0, [9, 11, 12, 21, 22, 18, 17.9, 35, 28, 27.9, 7], [0, 0, 1, 1, 2, 2, 1, 3, 3, 2, 0]),
        (2.0, [15, None, 21, 19, None], [1, 3, 2, 2, 3]),
    ],
)
def test_bins_make_many_states(hysteresis: float, values: list[Any], states: list[int]) -> None:
    """A bin is left only beyond the hysteresis of its edges; a jump goes to the bin of the value."""
    found = BinsDiscretiser((10.0, 20.0, 30.0), hysteresis, stand_in=3)
    assert found.states(values) == states
    assert found.refused == 0


def test_labels_make_many_states() -> None:
    found = LabelsDiscretiser(("sit", "walk", "run"), {"0": "sit", "jog": "run", "true": "walk"}, 1)
    assert found.states(["run", "sit", 0, "jog", True, "swim", 1, None]) == [2, 0, 0, 2, 1, 1, 1, 1]
    assert found.refused == 2


@pytest.mark.parametrize("stand_in", [None, "low", "high"])
@pytest.mark.parametrize("setting", [Threshold(at=75.0, hysteresis=5.0), Labels()])
def test_the_stand_in_is_fixed_by_the_policy(setting: Any, stand_in: str | None) -> None:
    """Whatever came before, an unknown or refused value is the policy's stand-in, by default the first state."""
    policy = stream_policy(discretiser=setting, stand_in=stand_in)
    number = int(stand_in == "high")
    for before in (60.0, 90.0, "low", "high", None):
        for unknown in (None, float("nan"), float("-inf"), "neither", b"".decode()):
            assert discretiser(policy).states([before, unknown])[1] == number
