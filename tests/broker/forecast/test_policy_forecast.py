"""The forecast of `hushmq push` agrees with the calibrator."""

from __future__ import annotations

import random

import pytest

from hushmq.broker.contract.policy_message import Assumption, DeviceWindow, Window
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import CategoricalThetaMessage, theta_message
from hushmq.broker.forecast.policy_forecast import forecast
from hushmq.calibrator.ledger.window_spending import spending
from hushmq.calibrator.policy.device_tilt import device_window_tilt
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.calibrator.settings.choose_noise import best_noise
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import optimal_noise
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import largest_tilt
from tests.agent.activity import FLOOR, START, activity_policy, theta_of_four
from tests.calibrator.site import NARROW, WIDE, stream_policy

METHODS = {"short": Window(ticks=20, method="mqm-exact"), "long": Window(ticks=40, method="mqm-approx")}
WINDOWS = {"short": Window(ticks=20, scopes=("cohort", "device")), "long": Window(ticks=40)}


@pytest.mark.parametrize("theta", [WIDE, NARROW])
@pytest.mark.parametrize("adversary", ["prior", "informed"])
def test_the_forecast_equals_the_calibrators_numbers(theta: BinaryTheta, adversary: Adversary) -> None:
    """Noise, shares, learning and losses equal those that the calibrator computes for the same Θ."""
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


def test_the_undecided_adversary_stands_beside() -> None:
    """Its losses are shown for every policy, and kept within ε by a policy that asks for it."""
    found = forecast(stream_policy(adversary="prior"), NARROW, devices=3)
    tilts = found.noise.tilts
    assert found.undecided_operator == NARROW.constant_loss(*tilts, "undecided") > 4.0
    assert found.as_tree()["undecided_public"] == found.undecided_public > found.public
    start = Assumption(start=theta_message(NARROW), floor=theta_message(NARROW))
    kept = forecast(stream_policy(adversary="undecided", theta=start), NARROW, devices=3)
    assert 3.99 < kept.operator == kept.undecided_operator <= 4.0
    assert 0.99 < kept.public == kept.undecided_public <= 1.0
    assert kept.noise.signal < found.noise.signal


def test_more_devices_make_the_hour_surer() -> None:
    """The error of the cohort's hour falls with the number of devices, and grows as ε falls."""
    policy = stream_policy()
    few, many = (forecast(policy, NARROW, devices=count).hourly_error for count in (1, 100))
    assert few > 9 * many
    tight = stream_policy(epsilon=policy.epsilon.model_copy(update={"operator": 1.0}))
    assert forecast(tight, NARROW, devices=100).hourly_error > many


def test_device_made_windows_come_off_both_budgets() -> None:
    """The tilt of device windows is in both losses, which stay within ε; windows that use up ε are refused."""
    windows = {"hour": DeviceWindow(ticks=3600, scale=10.0)}
    found, plain = (forecast(stream_policy(device_windows=each), WIDE, devices=3) for each in (windows, {}))
    assert found.operator <= 4.0 + 1e-9
    assert found.public <= 1.0 + 1e-9
    assert found.noise.rho0 > plain.noise.rho0
    assert found.shares[0].scale > plain.shares[0].scale
    greedy = stream_policy(device_windows={"hour": DeviceWindow(ticks=3600, scale=2.0)})
    with pytest.raises(Problem, match=r"epsilon\.public"):
        forecast(greedy, WIDE, devices=3)


def test_the_forecast_includes_a_method_that_adds_more_noise() -> None:
    """Each window's share is that of its method, as in the calibrator; the loss stays below ε."""
    policy = stream_policy(windows=METHODS, adversary="prior")
    found, least = forecast(policy, WIDE, devices=3), forecast(stream_policy(), WIDE, devices=3)
    for share in found.shares:
        spent = spending(policy, share.window, theta=WIDE, noises=[found.noise])
        assert share.tilt == pytest.approx(spent.release / NANO, rel=1e-6)
    exact, approx = (share.scale for share in found.shares)
    assert least.shares[0].scale < exact < approx
    assert found.public < least.public <= 1.0 + 1e-9


def test_a_theta_beyond_a_method_is_reported() -> None:
    """If the learned Θ lies beyond the range for which mqm-exact is certified, Problem names the method."""
    policy = stream_policy(windows={"short": Window(ticks=20, method="mqm-exact")}, adversary="prior")
    with pytest.raises(Problem, match=r"windows\.short\.method: mqm-exact is not certified"):
        forecast(policy, BinaryTheta(0.2, 0.6, 0.2, 0.6), devices=3)


ACTIVITY = {"windows": WINDOWS, "period_ms": 500}


@pytest.mark.parametrize("theta", [START.chains, FLOOR.chains])
def test_many_states_spend_both_budgets_and_no_more(theta: CategoricalTheta) -> None:
    """The noise is the randomized response of the largest tilt; releases are amplified by it."""
    policy = activity_policy(**ACTIVITY).streams["motion"]
    found = forecast(policy, theta, devices=3)
    tau, _ = theta.largest_tilts(4.0, "prior")
    assert found.noise == CategoricalNoise.response(4, tau)
    assert isinstance(found.noise, CategoricalNoise)
    assert found.noise.tilts[0] <= tau
    assert 0.999 * 4.0 < found.operator <= 4.0
    assert 0.999 * 2.0 < found.public <= 2.0
    assert found.noise.amplified(found.tilt) <= largest_tilt(theta, 2.0).tau
    assert all(share.scale == pytest.approx(2 / share.tilt) for share in found.shares)


@pytest.mark.parametrize("theta", [START.chains, FLOOR.chains])
@pytest.mark.parametrize("scales", [(), (20.0,)])
def test_the_forecast_equals_the_calibrators_numbers_for_many_states(
    theta: CategoricalTheta, scales: tuple[float, ...]
) -> None:
    """As for two states, up to the share of ε that the calibrator reserves for rounding."""
    own = {f"own-{n}": DeviceWindow(ticks=60, scale=scale) for n, scale in enumerate(scales)}
    policy = activity_policy(**ACTIVITY, device_windows=own).streams["motion"]
    found = forecast(policy, theta, devices=3)
    noise = best_noise(theta, policy)
    assert isinstance(found.noise, CategoricalNoise)
    assert isinstance(noise, CategoricalNoise)
    assert [row[0] for row in found.noise.rows] == pytest.approx([row[0] for row in noise.rows], rel=1e-3)
    learning = 0
    for share in found.shares:
        spent = spending(
            policy,
            share.window,
            share.scope,
            theta=theta,
            noises=[found.noise],
            device_tilt=device_window_tilt(policy),
        )
        assert share.tilt == pytest.approx(spent.release / NANO, rel=1e-3)
        learning += spent.learning
    assert found.learning == pytest.approx(learning / NANO, rel=1e-3)


@pytest.mark.slow
def test_no_tilt_is_spent_on_learning_for_too_many_states() -> None:
    """Without learning, a window's whole tilt is spent on its release."""
    k = 9
    low, high = (
        tuple(tuple(stay if u == x else move / (k - 1) for u in range(k)) for x in range(k))
        for stay, move in ((0.3, 0.62), (0.36, 0.75))
    )
    theta = CategoricalThetaMessage(low=low, high=high)
    policy = activity_policy(
        **ACTIVITY,
        states=tuple(f"s{n}" for n in range(k)),
        theta=Assumption(start=theta, floor=theta),
    ).streams["motion"]
    found = forecast(policy, theta.chains, devices=3)
    assert found.learning == 0
    assert 0.999 * 2.0 < found.public <= 2.0


def test_windows_on_the_device_come_off_both_budgets_of_many_states() -> None:
    """Device windows tilt every tick by 2/scale; Problem is raised if they use up ε, or Θ mixes too slowly."""
    windows = {"hour": DeviceWindow(ticks=3600, scale=20.0)}
    found, plain = (
        forecast(activity_policy(**ACTIVITY, device_windows=each).streams["motion"], START.chains, devices=3)
        for each in (windows, {})
    )
    assert isinstance(found.noise, CategoricalNoise)
    assert isinstance(plain.noise, CategoricalNoise)
    assert found.noise.tilts[0] == pytest.approx(plain.noise.tilts[0] - 0.1)
    assert found.operator <= 4.0
    assert found.public <= 2.0
    assert found.shares[0].scale > plain.shares[0].scale
    greedy = {"hour": DeviceWindow(ticks=3600, scale=4.0)}
    with pytest.raises(Problem, match=r"epsilon\.public: device_windows leave nothing"):
        forecast(
            activity_policy(**ACTIVITY, device_windows=greedy).streams["motion"], START.chains, devices=3
        )
    stuck = theta_of_four((0.0, 1.0), (0.0, 1.0)).chains
    with pytest.raises(Problem, match=r"epsilon\.operator: Θ: its chains may forget too slowly for ε of 4"):
        forecast(activity_policy(**ACTIVITY).streams["motion"], stuck, devices=3)


def test_the_error_of_many_states_is_what_an_hour_shows() -> None:
    """In a simulation, the standard error of estimates is at most the forecast, and not much less."""
    policy = activity_policy(**ACTIVITY).streams["motion"]
    found = forecast(policy, FLOOR.chains, devices=1)
    assert isinstance(found.noise, CategoricalNoise)
    weights, rng, ticks = found.noise.frequency_weights(), random.Random(3), 7200
    scale = min(share.scale for share in found.shares)
    errors = []
    for _ in range(60):
        # Half of the time in state 0: the largest variance.
        outputs = [0] * 4
        for z in rng.choices(range(4), found.noise.rows[0], k=ticks // 2):
            outputs[z] += 1
        for z in rng.choices(range(4), found.noise.rows[1], k=ticks // 2):
            outputs[z] += 1
        counts = [n + scale * (rng.expovariate(1) - rng.expovariate(1)) for n in outputs]
        errors.append(sum(a * n for a, n in zip(weights[0], counts, strict=True)) / ticks - 0.5)
    spread = (sum(error * error for error in errors) / len(errors)) ** 0.5
    assert 0.6 * found.hourly_error < spread < 1.3 * found.hourly_error
