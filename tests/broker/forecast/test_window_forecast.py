"""The error of every window, and what would make it smaller."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from hushmq.broker.contract.policy_message import DeviceWindow, Window
from hushmq.broker.forecast.policy_forecast import forecast
from hushmq.broker.forecast.window_forecast import devices_for, epsilon_for, window_forecasts
from tests.calibrator.site import NARROW, WIDE, stream_policy

WINDOWS = {"short": Window(ticks=200, scopes=("cohort", "device")), "long": Window(ticks=4000)}


def test_intervals_cover_what_a_window_releases() -> None:
    """At the worst share, of 4000 simulated releases at least 94% lie within the interval, and not nearly all."""
    policy = stream_policy(windows=WINDOWS)
    found = forecast(policy, NARROW, devices=1)
    (one,) = [each for each in window_forecasts(policy, found, devices=1) if each.window == "long"]
    (share,) = [each for each in found.shares if each.window == "long"]
    (_, rho0), (rho1, _) = found.noise.laws
    draw = random.Random(1)
    inside = 0
    for _ in range(4000):
        # Half of the ticks are in either state: the sum of flips is normal for 4000 of them.
        n = one.ticks / 2
        mean = n * rho0 + n * (1 - rho1)
        spread = math.sqrt(n * rho0 * (1 - rho0) + n * rho1 * (1 - rho1))
        laplace = draw.expovariate(1) - draw.expovariate(1)
        ones = draw.gauss(mean, spread) + share.scale * laplace
        estimate = (ones / one.ticks - rho0) / (1 - rho0 - rho1)
        inside += abs(estimate - 0.5) <= one.half_width
    assert 0.94 < inside / 4000 < 0.97


def test_a_cohort_averages_over_its_devices_and_a_device_does_not() -> None:
    """Every window and scope is there; more devices narrow the cohort's interval alone."""
    policy = stream_policy(windows=WINDOWS, device_windows={"own": DeviceWindow(ticks=100, scale=20.0)})

    def widths(devices: int) -> dict[tuple[str, str], float]:
        found = window_forecasts(policy, forecast(policy, NARROW, devices=devices), devices=devices)
        return {(one.window, one.scope): one.half_width for one in found}

    few, many = widths(1), widths(100)
    assert set(few) == {("short", "cohort"), ("short", "device"), ("long", "cohort"), ("own", "device")}
    assert few["short", "cohort"] == few["short", "device"] == many["short", "device"]
    assert many["short", "cohort"] < 0.1 * few["short", "cohort"]
    # Laplace noise exceeds scale·ln 20 with probability 5%; the counts of the device itself have no other noise.
    assert few["own", "device"] == many["own", "device"] == pytest.approx(20.0 * math.log(20) / 100, rel=1e-6)


@pytest.mark.parametrize("wanted", [0.5, 0.1, 0.031])
def test_the_least_number_of_devices(wanted: float) -> None:
    """It reaches what is wanted, and one device fewer does not."""
    policy = stream_policy(windows=WINDOWS)

    def width(devices: int) -> float:
        found = window_forecasts(policy, forecast(policy, WIDE, devices=devices), devices=devices)
        return next(one.half_width for one in found if (one.window, one.scope) == ("short", "cohort"))

    number = devices_for(policy, WIDE, "short", wanted)
    assert number is not None
    assert number > 1
    assert width(number) <= wanted < width(number - 1)


def test_the_least_epsilon() -> None:
    """It reaches what is wanted, and a twentieth less does not; what no ε reaches has none."""
    policy = stream_policy(windows=WINDOWS)

    def width(epsilon: float) -> float:
        ratio = policy.epsilon.public / policy.epsilon.operator
        other: dict[str, Any] = {"operator": epsilon, "public": epsilon * ratio}
        changed = policy.model_copy(update={"epsilon": policy.epsilon.model_copy(update=other)})
        found = window_forecasts(changed, forecast(changed, NARROW, devices=5), devices=5)
        return next(one.half_width for one in found if (one.window, one.scope) == ("long", "cohort"))

    epsilon = epsilon_for(policy, NARROW, "long", 0.03, devices=5)
    assert epsilon is not None
    assert width(epsilon) <= 0.03 < width(0.95 * epsilon)
    assert epsilon_for(policy, NARROW, "long", 1e-9, devices=5) is None
    assert devices_for(policy, NARROW, "absent", 0.1) is None


def test_less_than_no_data_is_said() -> None:
    """Whoever says ½ is off by ½ at most: a wider interval tells less than that."""
    policy = stream_policy(windows=WINDOWS)
    found = window_forecasts(policy, forecast(policy, WIDE, devices=1), devices=1)
    assert {one.tells for one in found} == {True, False}
    assert all(one.tells == (one.half_width < 0.5) for one in found)
