"""Whoever can write every topic of the broker but has no key cannot lower the noise, spend budget, or see a raw state.

Each attempt is a test on the code that judges it; the last test makes them all at once on a real broker, with the
passwords of ops, the calibrator and a device, against a real calibrator and a real agent.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hushmq.agent.accept_settings import Settings, Trust
from hushmq.agent.agent_config import TrustSection
from hushmq.agent.sources.simulated_source import SimulatedChain
from hushmq.broker.contract.messages import Batch, Counted, NoiseSetting, Release, Seen, decode, encode
from hushmq.broker.contract.noise_message import BinaryNoiseMessage, binary_noise_of
from hushmq.broker.contract.packing import unpack
from hushmq.broker.contract.policy_message import DeviceWindow, Window
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.theta_message import binary_theta_of, theta_message
from hushmq.broker.contract.topics import parse
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.agent.peer import write_config as write_agent
from tests.agent.running import process as agent_process
from tests.calibrator.running import Client, process, write_config
from tests.calibrator.site import (
    CALIBRATOR,
    OPS,
    START,
    STRANGER,
    STREAM,
    TOPICS,
    batch,
    desk,
    from_device,
    policy,
    signed,
    sqlite,
    states,
    wait_until,
)
from tests.calibrator.test_daemon import EVERYTHING, tick

DEVICE = "wearable-1"
BARE = BinaryTheta(0.45, 0.46, 0.45, 0.46)
"""A Θ under which hardly any noise is needed."""


def setting(version: int = 9, **changes: object) -> NoiseSetting:
    """A setting with hardly any noise."""
    fields: dict[str, object] = {
        "version": version,
        "policy": 1,
        "cohort": "test",
        "stream": STREAM,
        "theta": theta_message(BARE),
        "noise": BinaryNoiseMessage(rho0=0.01, rho1=0.01),
    }
    return NoiseSetting(**(fields | changes))  # type: ignore[arg-type]  # checked by the model


def true_setting(version: int = 2) -> bytes:
    """The calibrator's own setting for the policy, as a device has it."""
    from hushmq.pufferfish.binary.stream_loss import optimal_noise

    theta = policy().streams[STREAM].theta.start
    noise = optimal_noise(binary_theta_of(theta), 3.9, "prior")
    message = setting(version, theta=theta, noise=BinaryNoiseMessage(rho0=noise.rho0, rho1=noise.rho1))
    return encode(CALIBRATOR.sign(message))


@pytest.fixture
def device(tmp_path: Path) -> Settings:
    """A device that follows policy 1 and noise version 2."""
    trust = Trust.of(
        TrustSection(
            ops_keys=(str(OPS.public),),
            calibrator_keys=(str(CALIBRATOR.public),),
            epsilon_max=4.0,
            rho_min=0.001,
        )
    )
    found = Settings(tmp_path, trust, cohort="test", device=DEVICE, streams=[STREAM])
    push(found, TOPICS.policy, signed(policy()))
    push(found, TOPICS.noise(STREAM), true_setting())
    return found


def push(device: Settings, topic: str, payload: bytes) -> None:
    address = parse(topic)
    assert address is not None
    device.offer(address, payload, {STREAM: 1000})


LENIENT = policy(2, epsilon={"operator": 20.0, "public": 20.0})
FORGED_NOISE = {
    "a stranger's signature": (encode(STRANGER.sign(setting())), Reason.UNKNOWN_KEY),
    "ops' key, which signs no settings": (encode(OPS.sign(setting())), Reason.UNKNOWN_KEY),
    "the calibrator's signature on other words": (
        true_setting(9).replace(b'"rho0":0.', b'"rho0":0.0'),
        Reason.BAD_SIGNATURE,
    ),
    "a policy in its place": (signed(policy()), Reason.UNKNOWN_VERSION),
    "for another stream": (encode(CALIBRATOR.sign(setting(stream="other"))), Reason.WRONG_ADDRESS),
    "for another device": (encode(CALIBRATOR.sign(setting(device="wearable-2"))), Reason.WRONG_ADDRESS),
    "from another cohort": (encode(CALIBRATOR.sign(setting(cohort="other"))), Reason.WRONG_ADDRESS),
    "of an older version": (true_setting(1), Reason.STALE_VERSION),
    "cleared": (b"", Reason.MALFORMED),
}
FORGED_POLICY = {
    "a stranger's signature": (signed(LENIENT, STRANGER), Reason.UNKNOWN_KEY),
    "the calibrator's key": (signed(LENIENT, CALIBRATOR), Reason.UNKNOWN_KEY),
    "ops' signature on other words": (
        signed(policy(2)).replace(b'"operator":4.0', b'"operator":9.0'),
        Reason.BAD_SIGNATURE,
    ),
    "an old one": (signed(policy(1, learning=0.3)), Reason.STALE_VERSION),
    "another cohort's": (signed(policy(2, cohort="other")), Reason.WRONG_ADDRESS),
    "cleared": (b"", Reason.MALFORMED),
}


@pytest.mark.parametrize("attempt", FORGED_NOISE)
def test_no_setting_without_the_key_lowers_a_devices_noise(device: Settings, attempt: str) -> None:
    """The device refuses it with the reason and keeps its noise."""
    payload, reason = FORGED_NOISE[attempt]
    before = device.noise[STREAM]
    with pytest.raises(Rejected) as refusal:
        push(device, TOPICS.noise(STREAM), payload)
    assert refusal.value.reason == reason
    assert device.noise[STREAM] == before


@pytest.mark.parametrize("attempt", FORGED_POLICY)
def test_no_policy_without_the_key_is_followed(tmp_path: Path, device: Settings, attempt: str) -> None:
    """Neither device nor calibrator follows it; noise and budgets stay."""
    payload, reason = FORGED_POLICY[attempt]
    before = device.noise[STREAM]
    with pytest.raises(Rejected) as refusal:
        push(device, TOPICS.policy, payload)
    assert refusal.value.reason == reason
    assert device.noise[STREAM] == before
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.cohort.receive([Arrived(TOPICS.policy, payload)])
        assert here.cohort.policy == policy()
        assert here.cohort.rejected == {reason: 1}


@pytest.mark.parametrize("attempt", sorted(FORGED_NOISE.keys() - {"of an older version", "cleared"}))
def test_the_calibrator_believes_no_setting_but_its_own(tmp_path: Path, attempt: str) -> None:
    """What was slipped onto its topic changes neither its setting nor what it thinks was issued for the stream."""
    payload, _ = FORGED_NOISE[attempt]
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        before = here.cohort.calibrate()
        here.cohort.receive([Arrived(TOPICS.noise(STREAM), payload)])
        assert here.cohort.calibrate() == before


def flood(here_tick: int) -> list[Arrived]:
    """Invented states for invented and for real devices, past, present and future, again and again."""
    return [
        from_device(f"d{n}", first, states(20, seed=n + again))
        for again in range(3)
        for n in range(4)
        for first in (here_tick - 20, here_tick, here_tick + 20, here_tick + 100_000)
    ]


def test_invented_batches_spend_no_more_than_the_schedule(tmp_path: Path) -> None:
    """However much is sent, a window of the schedule is charged once, and the whole stays within the budget."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        for number in range(5):
            here.clock.tick = START + 20 * number
            here.cohort.receive(flood(START + 20 * number))
            here.cohort.close_due()
            here.cohort.close_due()
        (state,) = here.cohort.ledger_states()
        assert state.entries <= 1 + 5
        assert state.public.loss <= state.public.budget


def test_ticks_from_the_future_close_no_window(tmp_path: Path) -> None:
    """Time is the calibrator's own: nobody ends a window early."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.cohort.receive([from_device("d", START, [1, 0]), from_device("e", START + 100_000, [1])])
        assert here.cohort.close_due().windows == ()


def test_invented_releases_of_devices_spend_nothing_and_change_no_noise(tmp_path: Path) -> None:
    """Whoever writes to a device's release topic can falsify a sum of its cohort, and nothing that is promised."""
    windows = {"own": DeviceWindow(ticks=10, scale=50.0)}
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(device_windows=windows))
        here.clock.tick = START + 12
        (before,) = here.cohort.ledger_states()
        setting = here.cohort.calibrate()[STREAM].payload
        stored = decode(
            Release, (Path(__file__).parents[1] / "broker/contract/stored/v1/Release.json").read_bytes()
        )
        for n in range(50):
            invented = stored.model_copy(
                update={
                    "window": "own",
                    "scope": f"d{n}",
                    "first": START,
                    "last": START + 9,
                    "devices": 1,
                    "ticks": 10,
                    "counts": (-1000, 1010),
                    "scale": 50.0,
                    "loss": 0.0,
                }
            )
            topic = TOPICS.release(STREAM, "own", f"d{n}")
            here.cohort.receive([Arrived(topic, encode(invented))])
        here.cohort.close_due()
        (after,) = here.cohort.ledger_states()
        assert (after.entries, after.public, after.operator) == (0, before.public, before.operator)
        assert here.cohort.calibrate()[STREAM].payload == setting
        assert here.cohort.calibrate_devices().in_force == {STREAM: {}}
        (total,) = [decode(Release, one.payload) for one in here.cohort.unsent()]
        assert total.devices == 50


def test_replayed_batches_buy_no_second_look(tmp_path: Path) -> None:
    """A window that is closed is never drawn again, whatever is sent for it."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        here.cohort.close_due()
        first = here.cohort.unsent()
        for _ in range(5):
            here.window()
            here.cohort.receive([from_device("new", START, states(20))])
            assert here.cohort.close_due().windows == ()
        assert here.cohort.unsent() == first


def genuine(payloads: list[bytes], start: int) -> list[Batch]:
    """The device's own batches: the imposter's lie before the start."""
    return [one for payload in payloads if (one := decode(Batch, payload)).first >= start]


def test_everything_at_once_on_a_real_broker(nats: BrokerProcess, tmp_path: Path) -> None:
    """With every password and no key: the agent keeps the calibrator's noise, which is really on its states."""
    windows = {"period_ms": 10, "windows": {"short": Window(ticks=100)}}
    calibrator, agent = (
        write_config(tmp_path / "calibrator", nats),
        write_agent(tmp_path / "agent", nats.port),
    )
    start = tick()
    agent.write_text(agent.read_text().rsplit("start_tick", 1)[0] + f"start_tick = {start}\n")
    truth = SimulatedChain.binary(0.25, 0.35, 7, start)
    with (
        Client(nats, "ops", EVERYTHING) as ops,
        Client(nats, "calibrator") as thief,
        Client(nats, DEVICE) as imposter,
        process(calibrator),
    ):
        ops.say(TOPICS.policy, signed(policy(**windows)), retain=True)
        ops.wait_for_setting()
        true = ops.setting()
        assert true is not None
        true_payload = ops.heard[TOPICS.noise(STREAM)][-1]
        topic = TOPICS.batch(DEVICE, STREAM)
        with agent_process(agent, log=tmp_path / "agent.log"):
            wait_until(lambda: ops.heard[topic])
            lenient = policy(5, epsilon={"operator": 20.0, "public": 20.0}, **windows)
            for key in (STRANGER, CALIBRATOR, PrivateKey.generate()):
                ops.say(TOPICS.policy, signed(lenient, key), retain=True)
            for payload, _ in FORGED_NOISE.values():
                thief.say(TOPICS.noise(STREAM), payload, retain=True)
                thief.say(TOPICS.noise(STREAM, DEVICE), payload, retain=True)
            thief.say(
                TOPICS.seen(DEVICE),
                encode(Seen(streams={STREAM: Counted(highest=2**50)})),
                retain=True,
            )
            thief.say(TOPICS.ledger(STREAM), b"{}", retain=True)
            for n in range(20):
                imposter.say(TOPICS.batch(DEVICE, STREAM), batch(tick() - 500 - 20 * n, states(10, seed=n)))
            ops.say(TOPICS.policy, b"", retain=True)
            wait_until(lambda: sum(one.count for one in genuine(ops.heard[topic], start)) > 600)
            wait_until(lambda: (one := ops.ledger_state()) is not None and one.entries >= 2)
            # What was put in its place is put right: a device that comes now finds the true setting.
            thief.say(TOPICS.noise(STREAM), b"", retain=True)
            wait_until(lambda: ops.heard[TOPICS.noise(STREAM)][-1] == true_payload)
        flips, shown = [0, 0], [0, 0]
        for message in genuine(ops.heard[topic], start):
            assert message.noise == true.version
            true_states = truth.states(message.first, message.count)
            for state, said in zip(true_states, unpack(message.states, message.count), strict=True):
                shown[state] += 1
                flips[state] += state != said
        noise = binary_noise_of(true.noise)
        for state, rho in ((0, noise.rho0), (1, noise.rho1)):
            band = 6 * math.sqrt(shown[state] * rho * (1 - rho))
            assert shown[state] > 100
            assert abs(flips[state] - shown[state] * rho) <= band
        state_ = ops.ledger_state()
        assert state_ is not None
        assert state_.public.loss <= state_.public.budget == 1.0
        assert state_.entries <= (tick() - start) // 100 + 10
