"""The Plan page's sliders: what an address names, and the policy that follows."""

from __future__ import annotations

import pytest

from hushmq.broker.contract.policy_message import Assumption, DeviceWindow, Window
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import theta_message
from hushmq.broker.forecast.stream_plan import plan_policy
from hushmq.console.state.plan_choice import (
    changed_policy,
    first_devices,
    no_stride,
    read_choice,
    renamed,
    strides_of,
)
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.site import STREAM, policy, stream_policy

SLOW = theta_message(BinaryTheta(0.02, 0.1, 0.02, 0.1))
SLOW_POLICY = policy(theta=Assumption(start=SLOW, floor=SLOW), windows={"short": Window(ticks=120)})


def test_a_stride_divides_every_window() -> None:
    """So that no other window changes; the place on the slider names one of them."""
    windows = {"short": Window(ticks=12), "long": Window(ticks=30)}
    assert strides_of(stream_policy(windows=windows)) == [1, 2, 3, 6]
    assert strides_of(stream_policy(windows={})) == [1]
    choice = read_choice({"stride": "2", "window": "long", "ticks": "31"}, policy(windows=windows), 5)
    assert (choice.stride, choice.ticks, choice.devices) == (3, 30, 5)


@pytest.mark.parametrize("text", ["", "x", "nan", "-7", "1e99", "inf"])
def test_no_address_breaks_the_page(text: str) -> None:
    """Whatever it says, a choice is within limits."""
    names = ("stream", "window", "operator", "public", "ticks", "devices", "stride")
    choice = read_choice(dict.fromkeys(names, text), SLOW_POLICY, 3)
    assert choice.stream == STREAM
    assert 0.05 <= choice.public <= 20
    assert choice.stride in strides_of(SLOW_POLICY.streams[STREAM])
    assert choice.ticks >= choice.stride


def test_another_stride_has_less_error_and_another_name() -> None:
    """The file has the stride under a new name, since a stream keeps its own; slow chains gain by it."""
    places = strides_of(SLOW_POLICY.streams[STREAM])
    choice = read_choice({"stride": str(places.index(6))}, SLOW_POLICY, 50)
    name, changed = renamed(SLOW_POLICY, choice), changed_policy(SLOW_POLICY, choice)
    assert set(changed.streams) == {name} != {STREAM}
    assert (changed.version, changed.streams[name].stride) == (2, 6)
    now = plan_policy(SLOW_POLICY, {STREAM: 50})[STREAM].best_windows[0]
    then = plan_policy(changed, {name: 50})[name].best_windows[0]
    assert then.half_width < now.half_width


def test_the_same_stride_keeps_the_name() -> None:
    """Only ε changes."""
    choice = read_choice({"public": "0.5"}, SLOW_POLICY, 1)
    assert changed_policy(SLOW_POLICY, choice).streams[STREAM].epsilon.public == 0.5


def test_why_there_is_no_stride_is_said() -> None:
    """In the words of the rule, without the library's."""
    assert no_stride(SLOW_POLICY, STREAM) is None
    assert "no number divides" in str(no_stride(policy(windows={"short": Window(ticks=1)}), STREAM))
    beside = policy(device_windows={"own": DeviceWindow(ticks=60, scale=2.0)})
    said = no_stride(beside, STREAM)
    assert said is not None
    assert said.startswith("stride: above 1 there are no device_windows")
    assert "type=" not in said


def test_a_policy_may_be_for_some_devices_first() -> None:
    """Those that are named, if they are known; the next one is for all unless somebody says so again."""
    now = policy()
    choice = read_choice({}, now, 10)
    assert first_devices("", now, {"d0"}) == []
    staged = changed_policy(now, choice, first_devices(" d1, d0,", now, {"d0", "d1"}))
    assert staged.first_devices == ("d0", "d1")
    assert changed_policy(staged, choice).first_devices == ()
    with pytest.raises(Problem, match="nothing is known of 'porch'"):
        first_devices("porch", now, {"d0"})
