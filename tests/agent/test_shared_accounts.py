"""A device whose streams share an account, alone or with other devices, accepts only settings within its share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushmq.agent.accept_settings import Settings, Trust
from hushmq.broker.contract.account_share import priced_streams
from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.contract.policy_message import Assumption, DeviceWindow, Group, Policy, StreamPolicy
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.theta_message import BinaryThetaMessage, theta_message
from hushmq.broker.contract.topics import Address
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.agent.clocks import Hands
from tests.agent.peer import CALIBRATOR, DEVICE, NARROW, OPS, WIDE, noise, sign, stream_policy, write_config
from tests.agent.transcript import Wire, driven, store_settings

POLICY = Address("test", "policy")
SLOWER = theta_message(BinaryTheta(0.1, 0.3, 0.1, 0.3))
"""The floor of the other stream: it reaches below that of the first."""


def policy(groups: dict[str, Group] | None = None, **streams: StreamPolicy) -> Policy:
    named = streams or {"motion": stream_policy(), "light": stream_policy()}
    return Policy(version=1, cohort="test", streams=named, groups=groups or {})


def opened(folder: Path, message: Policy, device: str = DEVICE) -> Settings:
    trust = Trust((OPS.public,), (CALIBRATOR.public,), epsilon_max=2.0, rho_min=0.001)
    found = Settings(folder, trust, cohort="test", device=device, streams=["motion", "light"])
    assert found.offer(POLICY, sign(message), {})
    return found


def offer(
    settings: Settings,
    share: float,
    *,
    stream: str = "motion",
    theta: BinaryThetaMessage = WIDE,
    version: int = 1,
) -> bool:
    noise = theta.chains.optimal_noise(2.0, "informed", 0.0, share * (1 - 1e-9))
    setting = NoiseSetting(
        version=version,
        policy=1,
        cohort="test",
        stream=stream,
        theta=theta,
        noise=BinaryNoiseMessage(rho0=noise.rho0, rho1=noise.rho1),
    )
    return settings.offer(Address("test", "noise", stream=stream), sign(setting), {})


def refusal(settings: Settings, share: float, *, theta: BinaryThetaMessage = WIDE) -> Reason:
    with pytest.raises(Rejected) as caught:
        offer(settings, share, theta=theta, version=2)
    return caught.value.reason


def test_two_streams_have_half_of_the_tilt_each(tmp_path: Path) -> None:
    """Noise that would be enough for one stream alone is refused, and so is a share that is a little too large."""
    settings = opened(tmp_path, policy())
    for stream in ("motion", "light"):
        assert offer(settings, 0.5, stream=stream)
    assert refusal(settings, 0.51) == Reason.LOSS_ABOVE_EPSILON
    assert refusal(settings, 1.0) == Reason.LOSS_ABOVE_EPSILON
    assert settings.noise["motion"].version == 1


def test_a_stream_said_to_be_independent_has_all_of_it(tmp_path: Path) -> None:
    one = stream_policy(independent=True)
    assert offer(opened(tmp_path, policy(motion=one, light=one)), 1.0)


@pytest.mark.parametrize(("device", "share"), [("watch", 1 / 6), ("door", 1 / 4), ("other", 1 / 2)])
def test_the_group_of_a_device_lowers_its_share(tmp_path: Path, device: str, share: float) -> None:
    """A device knows its name, hence its group: two streams on each of three devices have a sixth."""
    groups = {"ann": Group(devices=("watch", "ring", "phone")), "room": Group(devices=("door", "lamp"))}
    settings = opened(tmp_path, policy(groups), device)
    assert offer(settings, share)
    assert refusal(settings, 1.02 * share) == Reason.LOSS_ABOVE_EPSILON


def test_theta_contains_the_floor_of_every_stream_of_the_account(tmp_path: Path) -> None:
    """A Θ that is wide enough for one stream is refused where another stream's floor is not in it."""
    other = stream_policy(theta=Assumption(start=WIDE, floor=SLOWER))
    settings = opened(tmp_path, policy(motion=stream_policy(), light=other))
    assert refusal(settings, 0.3, theta=NARROW) == Reason.THETA_NARROWER_THAN_FLOOR
    both = theta_message(NARROW.chains.hull(SLOWER.chains))
    assert offer(settings, 0.5, theta=both)


def test_device_windows_are_within_the_share_too(tmp_path: Path) -> None:
    """A tilt by device windows that one stream may have alone is refused where two share the account."""
    top, _ = WIDE.chains.largest_tilts(1.0, "informed")
    windows = {"hour": DeviceWindow(ticks=10, scale=1 / (0.9 * top))}
    one, other = stream_policy(device_windows=windows), stream_policy()
    with pytest.raises(Rejected) as caught:
        opened(tmp_path, policy(motion=one, light=other))
    assert caught.value.reason == Reason.LOSS_ABOVE_EPSILON
    (tmp_path / "alone").mkdir()
    opened(tmp_path / "alone", policy(motion=one, light=stream_policy(independent=True)))


def test_a_policy_whose_streams_cannot_be_joined_is_refused_with_its_remedy(tmp_path: Path) -> None:
    """Such a policy could be signed before streams were joined: the device keeps what it follows and says why."""
    settings = opened(tmp_path, policy())
    older = json.loads(sign(policy()))
    older["message"]["version"] = 2
    older["message"]["streams"]["light"]["period_ms"] = 7
    with pytest.raises(Rejected, match="write independent = true") as caught:
        settings.offer(POLICY, json.dumps(older).encode(), {})
    assert caught.value.reason == Reason.MALFORMED
    assert settings.policy == policy()


def test_a_release_of_the_device_names_who_shares_its_account(tmp_path: Path) -> None:
    """Its loss is that of the account: whoever reads it sees of which streams and how many devices."""
    window = {"own": DeviceWindow(ticks=5, scale=400.0)}
    group = {"home": Group(devices=(DEVICE, "wearable-2"))}
    stated = policy(group, motion=stream_policy(device_windows=window), light=stream_policy())
    config = write_config(tmp_path, source='kind = "offer"', publish="beat_ms = 100")
    share = priced_streams(stated, DEVICE)["motion"].policy.tilt_share
    tilt = stated.streams["motion"].device_window_tilt
    best = WIDE.chains.optimal_noise(2.0, "informed", tilt, share * (1 - 1e-9))
    setting = noise(noise=BinaryNoiseMessage(rho0=best.rho0, rho1=best.rho1))
    store_settings(config, stated, setting)
    hands, wire = Hands(), Wire()
    with driven(config, hands, wire) as agent:
        for _ in range(5):
            hands.run(100)
            agent.beat()
    releases = [json.loads(what) for _, topic, what, _ in wire.sent if "/release/" in topic]
    assert releases
    assert all(one["account"] == {"streams": ["motion", "light"], "devices": 2} for one in releases)
