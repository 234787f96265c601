"""The schedule asks the database exactly when something can have become due."""

from __future__ import annotations

from hushmq.broker.contract.policy_message import DeviceWindow, Window
from hushmq.calibrator.windows.due_windows import WindowSchedule
from tests.calibrator.site import STREAM, stream_policy

POLICY = stream_policy(
    windows={"short": Window(ticks=20), "long": Window(ticks=50)},
    device_windows={"own": DeviceWindow(ticks=30, scale=40.0)},
)


def searched(through: int) -> WindowSchedule:
    schedule = WindowSchedule()
    schedule.searched(STREAM, POLICY, through=through)
    return schedule


def test_a_stream_is_searched_when_another_window_has_ended() -> None:
    """Windows of 20, 30 and 50 ticks: after tick 44 the next to end are those that end with tick 49."""
    assert WindowSchedule().can_be_due(STREAM, through=0)
    schedule = searched(44)
    due = [through for through in range(40, 120) if schedule.can_be_due(STREAM, through=through)]
    assert due == list(range(49, 120))
    assert schedule.can_be_due("other", through=44)


def test_states_for_a_window_that_was_searched_bring_it_back() -> None:
    """Up to tick 39 a window has ended: states from there are news, later ones are for windows to come."""
    schedule = searched(44)
    schedule.arrived(STREAM, 40)
    schedule.arrived("other", 0)
    assert not schedule.can_be_due(STREAM, through=45)
    schedule.arrived(STREAM, 39)
    assert schedule.can_be_due(STREAM, through=45)


def test_a_new_policy_is_searched_from_the_start() -> None:
    """Its windows may have other lengths."""
    schedule = searched(44)
    schedule.policy_changed()
    assert schedule.can_be_due(STREAM, through=44)


def test_a_stream_without_windows_is_searched_once() -> None:
    """Nothing of it can become due."""
    schedule = WindowSchedule()
    schedule.searched(STREAM, POLICY.model_copy(update={"windows": {}, "device_windows": {}}), through=44)
    assert not schedule.can_be_due(STREAM, through=10**9)
