"""Pushed settings are applied only if their loss is within ε, and the last valid one survives a restart."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hushmq.agent.accept_settings import Kept, LoadedSettings, Settings, Trust
from hushmq.broker.contract.message_base import Message
from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.noise_message import BinaryNoiseMessage, binary_noise_of
from hushmq.broker.contract.policy_message import Assumption, Audiences, Policy
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.theta_message import theta_message
from hushmq.broker.contract.topics import Address
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss
from tests.agent.peer import CALIBRATOR, DEVICE, NARROW, OPS, WIDE, noise, policy, sign

POLICY = Address("test", "policy")
NOISE = Address("test", "noise", stream="motion")
OWN = Address("test", "noise", stream="motion", device=DEVICE)
STRANGER = PrivateKey(b"s" * 32)


def fresh(
    folder: Path, *, epsilon_max: float = 4.0, rho_min: float = 0.001, ops: PrivateKey = OPS
) -> Settings:
    trust = Trust((ops.public,), (CALIBRATOR.public,), epsilon_max=epsilon_max, rho_min=rho_min)
    return Settings(folder, trust, cohort="test", device=DEVICE, streams=["motion"])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings with policy 3 and noise 5 in force."""
    found = fresh(tmp_path)
    assert found.offer(POLICY, sign(policy(3)), {})
    assert found.offer(NOISE, sign(noise(5, policy=3)), {})
    return found


def tampered(message: Policy | NoiseSetting, change: Callable[[dict[str, Any]], None]) -> bytes:
    tree = json.loads(sign(message))
    change(tree)
    return json.dumps(tree).encode()


def test_the_undecided_adversary_is_checked_on_the_device(tmp_path: Path) -> None:
    """Noise for the informed adversary is refused under a policy for the undecided; noise for that one is applied."""
    theta = BinaryTheta(0.2, 0.3, 0.3, 0.4)
    start = Assumption(start=theta_message(theta), floor=theta_message(theta))
    found = fresh(tmp_path)
    assert found.offer(POLICY, sign(policy(3, adversary="undecided", theta=start)), {})
    with pytest.raises(Rejected) as caught:
        found.offer(NOISE, sign(noise(5, policy=3, theta=theta_message(theta))), {})
    assert caught.value.reason == Reason.LOSS_ABOVE_EPSILON
    best = theta.optimal_noise(2.0, "undecided")
    kept = BinaryNoiseMessage(rho0=best.rho0, rho1=best.rho1)
    assert found.offer(NOISE, sign(noise(6, policy=3, theta=theta_message(theta), noise=kept)), {})


REFUSED_POLICIES: list[tuple[bytes, Reason]] = [
    (b"", Reason.MALFORMED),
    (b"\xff\x00", Reason.MALFORMED),
    (b"{}", Reason.MALFORMED),
    (b" " * 300_000, Reason.TOO_LARGE),
    (sign(noise(9)), Reason.MALFORMED),
    (sign(policy(4), STRANGER), Reason.UNKNOWN_KEY),
    (sign(policy(4), CALIBRATOR), Reason.UNKNOWN_KEY),
    (tampered(policy(4), lambda tree: tree["message"].update(version=5)), Reason.BAD_SIGNATURE),
    (tampered(policy(4), lambda tree: tree.update(signature="A" * 86 + "==")), Reason.BAD_SIGNATURE),
    (tampered(policy(4), lambda tree: tree["message"].update(v=3)), Reason.UNKNOWN_VERSION),
    (tampered(policy(4), lambda tree: tree["message"].update(surprise=1)), Reason.MALFORMED),
    (sign(policy(2)), Reason.STALE_VERSION),
    (sign(policy(3, period_ms=3)), Reason.STALE_VERSION),
    (sign(Policy(version=4, cohort="other", streams=policy().streams)), Reason.WRONG_ADDRESS),
    (sign(policy(4, epsilon=Audiences(operator=4.1, public=1.0))), Reason.EPSILON_ABOVE_CAP),
    (sign(policy(4, epsilon=Audiences(operator=2.0, public=4.1))), Reason.EPSILON_ABOVE_CAP),
    (sign(policy(4, period_ms=3)), Reason.PERIOD_CHANGED),
]


@pytest.mark.parametrize(("payload", "reason"), REFUSED_POLICIES)
def test_a_policy_is_refused_for_its_reason_and_changes_nothing(
    settings: Settings, payload: bytes, reason: Reason
) -> None:
    before = (settings.policy, dict(settings.noise))
    with pytest.raises(Rejected) as caught:
        settings.offer(POLICY, payload, {"motion": 2})
    assert caught.value.reason == reason
    assert (settings.policy, settings.noise) == before
    assert settings.policy_refusal is not None
    assert settings.policy_refusal.reason == reason


def weakened(setting: NoiseSetting, share: float) -> NoiseSetting:
    """Return the setting with both flip probabilities slightly smaller."""
    flips = binary_noise_of(setting.noise)
    return setting.model_copy(
        update={"noise": BinaryNoiseMessage(rho0=flips.rho0 * (1 - share), rho1=flips.rho1 * (1 - share))}
    )


REFUSED_NOISE: list[tuple[bytes, Reason]] = [
    (b"\xff", Reason.MALFORMED),
    (sign(noise(6, policy=3), OPS), Reason.UNKNOWN_KEY),
    (
        tampered(noise(6, policy=3), lambda tree: tree["message"]["noise"].update(rho0=0.3)),
        Reason.BAD_SIGNATURE,
    ),
    (sign(noise(4, policy=3)), Reason.STALE_VERSION),
    (sign(noise(5, policy=3, theta=NARROW)), Reason.STALE_VERSION),
    (sign(noise(6, policy=2)), Reason.POLICY_MISMATCH),
    (sign(noise(6, policy=4)), Reason.POLICY_MISMATCH),
    (sign(noise(6, policy=3, cohort="other")), Reason.WRONG_ADDRESS),
    (sign(noise(6, policy=3, stream="sound")), Reason.WRONG_ADDRESS),
    (sign(noise(6, policy=3, device=DEVICE)), Reason.WRONG_ADDRESS),
    (
        sign(noise(6, policy=3, theta=theta_message(BinaryTheta(0.21, 0.3, 0.3, 0.4)))),
        Reason.THETA_NARROWER_THAN_FLOOR,
    ),
    (sign(noise(6, policy=3, noise=BinaryNoiseMessage(rho0=0.0009, rho1=0.4))), Reason.NOISE_BELOW_FLOOR),
    (sign(weakened(noise(6, policy=3), 0.001)), Reason.LOSS_ABOVE_EPSILON),
    (sign(noise(6, policy=3, epsilon=2.01)), Reason.LOSS_ABOVE_EPSILON),
]


@pytest.mark.parametrize(("payload", "reason"), REFUSED_NOISE)
def test_a_noise_setting_is_refused_for_its_reason_and_the_last_good_one_stays(
    settings: Settings, payload: bytes, reason: Reason
) -> None:
    """0.1% too little noise is refused: the device recomputes the loss."""
    before = dict(settings.noise)
    with pytest.raises(Rejected) as caught:
        settings.offer(NOISE, payload, {})
    assert caught.value.reason == reason
    assert settings.noise == before
    assert settings.noise_refusals["motion"].reason == reason


def test_the_refused_tenth_of_a_percent_is_really_over_and_the_optimum_really_within() -> None:
    """The limit on which the test above relies, from the loss itself."""
    for setting, within in ((noise(6), True), (weakened(noise(6), 0.001), False)):
        found = binary_noise_of(setting.noise)
        assert (loss(WIDE.chains, tau0=found.tau0, tau1=found.tau1) <= 2.0) == within


def test_the_same_setting_again_is_neither_a_change_nor_a_refusal(settings: Settings) -> None:
    assert not settings.offer(POLICY, sign(policy(3)), {})
    assert not settings.offer(NOISE, sign(noise(5, policy=3)), {})
    assert settings.policy_refusal is None
    assert settings.noise_refusals == {}


def test_a_newer_device_specific_setting_applies_and_the_cohorts_older_one_is_no_refusal(
    settings: Settings,
) -> None:
    own = noise(6, policy=3, device=DEVICE, theta=NARROW)
    assert settings.offer(OWN, sign(own), {})
    assert settings.noise["motion"] == own
    assert not settings.offer(NOISE, sign(noise(5, policy=3)), {})
    assert settings.noise_refusals == {}
    assert settings.offer(NOISE, sign(noise(7, policy=3)), {})
    assert settings.noise["motion"].version == 7


def test_a_setting_for_another_device_is_ignored(settings: Settings) -> None:
    for address in (
        Address("test", "noise", stream="sound"),
        Address("test", "noise", stream="motion", device="wearable-2"),
    ):
        assert not settings.offer(address, b"whatever", {})
    assert settings.noise_refusals == {}


def test_a_new_policy_ends_the_noise_made_for_the_old_one(settings: Settings) -> None:
    """Without a setting for the new policy nothing is published."""
    assert settings.offer(POLICY, sign(policy(4)), {})
    assert settings.noise == {}
    assert settings.offer(NOISE, sign(noise(6, policy=4)), {})
    assert settings.noise["motion"].version == 6


@pytest.mark.parametrize("address", [NOISE, OWN])
def test_noise_that_arrived_before_its_policy_is_applied_with_it(tmp_path: Path, address: Address) -> None:
    """Retained messages arrive in any order, so noise may arrive before its policy."""
    settings = fresh(tmp_path)
    with pytest.raises(Rejected):
        settings.offer(address, sign(noise(1, policy=7, device=address.device)), {})
    assert settings.offer(POLICY, sign(policy(7)), {})
    assert settings.noise["motion"].version == 1
    assert settings.noise_refusals == {}


def test_a_policy_that_others_apply_first_is_checked_and_held_back(
    settings: Settings, tmp_path: Path
) -> None:
    """The former policy and its noise stay in force, also after a restart, until a policy is for all."""
    others = policy(4).model_copy(update={"first_devices": ("somebody",)})
    with pytest.raises(Rejected):  # noise for it comes first
        settings.offer(NOISE, sign(noise(6, policy=4)), {})
    assert not settings.offer(POLICY, sign(others), {})
    assert not settings.offer(NOISE, sign(noise(7, policy=4)), {})
    assert settings.policy is not None
    assert (settings.policy.version, settings.noise["motion"].version) == (3, 5)
    assert (settings.policy_refusal, settings.noise_refusals) == (None, {})
    settings.followed()
    again = fresh(tmp_path)
    assert again.load({}).refused == []
    assert (again.policy, again.noise) == (settings.policy, settings.noise)
    assert settings.offer(POLICY, sign(policy(5)), {})
    assert settings.noise == {}


def test_whoever_applies_a_policy_first_applies_it(settings: Settings) -> None:
    """A device that is named does; one that is not says all the same what it would refuse."""
    assert settings.offer(POLICY, sign(policy(4).model_copy(update={"first_devices": (DEVICE,)})), {})
    assert settings.noise == {}
    strange = policy(5, epsilon=Audiences(operator=9.0, public=1.0))
    with pytest.raises(Rejected):
        settings.offer(POLICY, sign(strange.model_copy(update={"first_devices": ("somebody",)})), {})
    assert settings.policy_refusal is not None
    assert (settings.policy_refusal.version, settings.policy_refusal.reason) == (5, Reason.EPSILON_ABOVE_CAP)


def test_the_last_good_settings_are_verified_again_and_used_after_a_restart(
    settings: Settings, tmp_path: Path
) -> None:
    settings.followed()
    again = fresh(tmp_path)
    assert again.load({"motion": 2}).refused == []
    assert (again.policy, again.noise) == (settings.policy, settings.noise)


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        ({"ops": STRANGER}, [Reason.UNKNOWN_KEY, Reason.POLICY_MISMATCH]),
        ({"epsilon_max": 1.0}, [Reason.EPSILON_ABOVE_CAP, Reason.POLICY_MISMATCH]),
        ({"rho_min": 0.49}, [Reason.NOISE_BELOW_FLOOR]),
    ],
)
def test_stored_settings_are_refused_when_the_device_s_file_no_longer_allows_them(
    settings: Settings, tmp_path: Path, change: dict[str, Any], reasons: list[Reason]
) -> None:
    settings.followed()
    again = fresh(tmp_path, **change)
    assert [rejected.reason for rejected in again.load({}).refused] == reasons
    assert again.noise == {}


def test_a_setting_that_cannot_be_stored_is_applied(settings: Settings, tmp_path: Path) -> None:
    """A setting that cannot be stored is applied, because it may demand more noise; the error is reported."""
    blocked = tmp_path / "settings" / "noise-motion.received.new"
    blocked.mkdir()
    assert settings.offer(NOISE, sign(noise(6, policy=3)), {})
    assert settings.noise["motion"].version == 6
    assert settings.save_error is not None


def test_what_was_received_and_not_followed_replaces_nothing(settings: Settings, tmp_path: Path) -> None:
    """Until the streams follow it, an absence is filled with what was in force; then it is taken up again."""
    settings.followed()
    settings.offer(NOISE, sign(noise(6, policy=3)), {})
    again = fresh(tmp_path)
    assert again.load({}).changed
    assert again.noise["motion"].version == 5
    assert again.load({}, Kept.RECEIVED) == LoadedSettings(True, [])
    assert again.noise["motion"].version == 6
    again.followed()
    assert not again.load({}, Kept.RECEIVED).changed
    once_more = fresh(tmp_path)
    once_more.load({})
    assert once_more.noise["motion"].version == 6


def test_what_was_received_and_is_refused_now_is_deleted(settings: Settings, tmp_path: Path) -> None:
    again = fresh(tmp_path, ops=STRANGER)
    assert again.load({}, Kept.RECEIVED).refused
    assert not again.load({}, Kept.RECEIVED).refused


def test_a_message_never_shows_what_it_was_given() -> None:
    """Reasons name the field, never the value that broke it."""
    with pytest.raises(Rejected) as caught:
        fresh_error(b'{"v":1,"message":{"version":"marker"},"key":"marker","signature":"marker"}')
    assert "marker" not in str(caught.value)


def fresh_error(payload: bytes) -> Message:
    from hushmq.broker.contract.signature import verify

    return verify(Policy, payload, [OPS.public])


def test_the_loss_is_recomputed_for_the_stride_of_the_policy(tmp_path: Path) -> None:
    """Noise that is enough for one tick in ten is refused by a device that publishes all of them, or one in nine."""
    best = WIDE.chains.optimal_noise(2.0, "informed", stride=10)
    setting = noise(noise=BinaryNoiseMessage(rho0=best.rho0, rho1=best.rho1))
    for stride in (10, 9, 1):
        folder = tmp_path / str(stride)
        folder.mkdir()
        device = fresh(folder)
        assert device.offer(POLICY, sign(policy(stride=stride)), {})
        if stride == 10:
            assert device.offer(NOISE, sign(setting), {})
            assert not device.offer(POLICY, sign(policy(stride=10)), {"motion": 20})
            with pytest.raises(Rejected, match="one state every 20 ms is in use"):
                device.offer(POLICY, sign(policy(2, stride=5)), {"motion": 20})
        else:
            with pytest.raises(Rejected, match="the loss is"):
                device.offer(NOISE, sign(setting), {})
