"""`stride = "auto"` in a policy file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from hushmq.broker.commands.policy_file import check_policy
from hushmq.broker.contract.policy_message import Assumption, DeviceWindow, Window
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import theta_message
from hushmq.broker.forecast.choose_stride import choose_stride, stride_gain
from hushmq.broker.forecast.message_traffic import traffic
from hushmq.broker.forecast.policy_forecast import forecast
from hushmq.broker.forecast.window_forecast import window_forecasts
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta
from tests.calibrator.site import STREAM, policy

SLOW = Assumption(
    start=theta_message(BinaryTheta(0.01, 0.1, 0.01, 0.1)), floor=theta_message(BinaryTheta.point(0.05, 0.05))
)
HOURS = {"hour": Window(ticks=3600, scopes=("cohort", "device")), "day": Window(ticks=86_400)}


def slow(**changes: Any) -> Any:
    fields: dict[str, Any] = {"theta": SLOW, "windows": HOURS, "adversary": "informed"}
    return policy(**(fields | changes))


def test_slow_chains_get_a_stride_and_much_less_error() -> None:
    """It divides every window, is not far from that of the table in docs/theory-regimes.md, and no other is better."""
    found = choose_stride(slow(), STREAM)
    assert 3600 % found == 0
    assert 30 <= found <= 150
    gain = stride_gain(slow(), STREAM, found)
    assert gain is not None
    assert gain > 2.0
    others = [stride_gain(slow(), STREAM, one) or 0.0 for one in (1, 2, 10, 20, 100, 200, 600, 3600)]
    assert max(others) <= gain
    sent, every = (traffic(one.streams[STREAM]) for one in (slow(stride=found), slow()))
    assert sent.bytes < every.bytes / 3


@pytest.mark.parametrize(
    "changes",
    [
        {"windows": {"prime": Window(ticks=3607)}},
        {"device_windows": {"own": DeviceWindow(ticks=3600, scale=1e6)}},
        {"windows": {"hour": Window(ticks=3600, method="mqm-exact")}, "adversary": "prior"},
        {"windows": {}},
    ],
)
def test_where_no_stride_is_possible_every_tick_is_published(changes: dict[str, Any]) -> None:
    """Not an error: the choice is 1."""
    assert choose_stride(slow(**changes), STREAM) == 1


def test_auto_in_a_file_becomes_a_number_and_stays_that_of_a_stream_in_use(tmp_path: Path) -> None:
    """Also where the policy has changed since, and where the file says nothing; "often" is refused by name."""
    text = """
    cohort = "test"
    [streams.motion]
    states = ["still", "moving"]
    period_ms = 1000
    stride = "auto"
    discretiser = {kind = "threshold", at = 75.0}
    theta.start = {q = {low = 0.01, high = 0.1}, r = {low = 0.01, high = 0.1}}
    theta.floor = {q = {low = 0.05, high = 0.06}, r = {low = 0.05, high = 0.06}}
    epsilon = {operator = 4.0, public = 1.0}
    windows = {hour = {ticks = 3600}}
    """
    tree, path = tomllib.loads(text), tmp_path / "policy.toml"
    chosen = check_policy(tree, path, version=1)
    assert chosen.streams[STREAM].stride > 10
    kept = check_policy(tree, path, version=2, in_use=slow(stride=5).streams)
    assert kept.streams[STREAM].stride == 5
    assert tree["streams"]["motion"].pop("stride") == "auto"
    assert check_policy(tree, path, version=1) == chosen
    assert check_policy(tree, path, version=2, in_use=slow().streams).streams[STREAM].stride == 1
    tree["streams"]["motion"]["stride"] = "often"
    with pytest.raises(Problem, match=r"streams\.motion\.stride"):
        check_policy(tree, path, version=1)


def test_regimes_have_the_longest_stride_that_is_as_good() -> None:
    """Its error is within 5% of the least of all strides that divide the window, and no longer one's is."""
    chain = RegimeChain.of([[0.9, 0.1], [0.1, 0.9]], [(0.06, 0.2), (0.3, 0.04)])
    theta = theta_message(RegimeTheta.of([chain]))
    fields: dict[str, Any] = {
        "theta": Assumption(start=theta, floor=theta),
        "adversary": "prior",
        "windows": {"minute": Window(ticks=24)},
    }
    found = choose_stride(policy(**fields), STREAM, devices=10)
    errors = {}
    for stride in (1, 2, 3, 4, 6, 8, 12, 24):
        tried = policy(**fields, stride=stride).streams[STREAM]
        (one,) = window_forecasts(tried, forecast(tried, theta.chains, devices=10), devices=10)
        errors[stride] = one.standard_error
    assert found == max(stride for stride, error in errors.items() if error <= 1.05 * min(errors.values()))
    assert found > 1
