"""The benchmark of a theta update times one, for every number of states."""

from __future__ import annotations

import pytest

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.evaluation.benchmarks.device_settings_speed import four_states, skipped, two_states
from hushmq.evaluation.benchmarks.theta_update_speed import seconds


@pytest.mark.slow
@pytest.mark.parametrize("stream", [two_states("informed"), four_states()], ids=["two states", "four states"])
def test_theta_is_updated_in_the_timed_window(stream: StreamPolicy) -> None:
    """It says so itself where it was not."""
    assert seconds(stream, 20) > 0


@pytest.mark.slow
def test_a_device_with_the_whole_theta_gets_no_setting() -> None:
    """It says so itself where one got some."""
    assert (skipped("two states", two_states("informed"), 3).value or 0) > 0
