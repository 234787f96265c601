"""What `hushmq push` foretells is what the calibrator will do."""

from __future__ import annotations

import pytest

from broker.forecast import forecast
from broker.messages import DeviceWindow, Window
from broker.problem import Problem
from calibrator.charge import NANO, spending
from pufferfish.binary import Adversary, Box, optimal_noise
from tests.calibrator.site import NARROW, WIDE, stream_policy

METHODS = {"short": Window(ticks=20, method="mqm-exact"), "long": Window(ticks=40, method="mqm-approx")}
WINDOWS = {"short": Window(ticks=20, scopes=("cohort", "device")), "long": Window(ticks=40)}


@pytest.mark.parametrize("theta", [WIDE, NARROW])
@pytest.mark.parametrize("adversary", ["prior", "informed"])
def test_the_calibrators_own_numbers(theta: Box, adversary: Adversary) -> None:
    """Noise, shares, learning and losses agree with what the calibrator computes for the same Θ."""
    policy = stream_policy(windows=WINDOWS, adversary=adversary)
    found = forecast(policy, theta, devices=3)
    noise = optimal_noise(theta, 4.0, adversary)
    assert found.noise == noise
    assert [(share.window, share.scope) for share in found.shares] == [
        ("short", "cohort"),
        ("short", "device"),
        ("long", "cohort"),
    ]
    learning = 0
    for share in found.shares:
        spent = spending(policy, share.window, share.scope, theta=theta, noises=[noise])
        assert share.tilt == pytest.approx(spent.release / NANO, rel=1e-6)
        learning += spent.learning
    assert found.learning == pytest.approx(learning / NANO, rel=1e-6)
    assert 0.99 * 4.0 < found.operator <= 4.0
    assert 0.99 < found.public <= 1.0 + 1e-9


def test_more_devices_make_the_hour_surer() -> None:
    """The error of the cohort's hour falls with the number of devices, and grows as ε falls."""
    policy = stream_policy()
    few, many = (forecast(policy, NARROW, devices=count).hourly_error for count in (1, 100))
    assert few > 9 * many
    tight = stream_policy(epsilon=policy.epsilon.model_copy(update={"operator": 1.0}))
    assert forecast(tight, NARROW, devices=100).hourly_error > many


def test_device_made_windows_come_off_both_budgets() -> None:
    """Their tilt is in both losses, which stay within ε; windows that leave nothing are refused in words."""
    windows = {"hour": DeviceWindow(ticks=3600, scale=10.0)}
    found, plain = (forecast(stream_policy(device_windows=each), WIDE, devices=3) for each in (windows, {}))
    assert found.operator <= 4.0 + 1e-9
    assert found.public <= 1.0 + 1e-9
    assert found.noise.rho0 > plain.noise.rho0
    assert found.shares[0].scale > plain.shares[0].scale
    greedy = stream_policy(device_windows={"hour": DeviceWindow(ticks=3600, scale=2.0)})
    with pytest.raises(Problem, match=r"epsilon\.public"):
        forecast(greedy, WIDE, devices=3)


def test_a_method_that_adds_more_noise_is_foretold() -> None:
    """Each window's share is that of its own method, as the calibrator has it; the loss stays below ε."""
    policy = stream_policy(windows=METHODS, adversary="prior")
    found, least = forecast(policy, WIDE, devices=3), forecast(stream_policy(), WIDE, devices=3)
    for share in found.shares:
        spent = spending(policy, share.window, theta=WIDE, noises=[found.noise])
        assert share.tilt == pytest.approx(spent.release / NANO, rel=1e-6)
    exact, approx = (share.scale for share in found.shares)
    assert least.shares[0].scale < exact < approx
    assert found.public < least.public <= 1.0 + 1e-9


def test_a_theta_beyond_a_method_is_told() -> None:
    """Where what is believed lies beyond what mqm-exact is certified for, push says so in one line."""
    policy = stream_policy(windows={"short": Window(ticks=20, method="mqm-exact")}, adversary="prior")
    with pytest.raises(Problem, match=r"windows\.short\.method: mqm-exact is not certified"):
        forecast(policy, Box(0.2, 0.6, 0.2, 0.6), devices=3)
