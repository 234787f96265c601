"""A stream of two states with hidden regimes, from its policy to its releases, settings and ledger."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushmq.agent.accept_settings import Trust, check_noise
from hushmq.broker.contract.messages import Batch, NoiseSetting, Release, decode, encode
from hushmq.broker.contract.noise_message import BinaryNoiseMessage, binary_noise_of
from hushmq.broker.contract.packing import pack
from hushmq.broker.contract.policy_message import (
    Assumption,
    Audiences,
    DeviceWindow,
    Policy,
    StreamPolicy,
    Threshold,
    Window,
)
from hushmq.broker.contract.problem import Problem, Reason, Rejected
from hushmq.broker.contract.theta_message import RegimeThetaMessage, binary_theta_of, theta_message
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.ledger.verify_ledger import verify as verify_ledger
from hushmq.calibrator.models.choose_model import model_of, read_theta
from hushmq.calibrator.models.regime.regime_coordinates import RegimeCoordinates
from hushmq.calibrator.models.regime_set_model import RegimeModel
from hushmq.evaluation.estimation.sanitized_regimes import sanitized
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta
from tests.calibrator.site import START, TOPICS, Desk, desk, signed, sqlite

STREAM, TICKS = "pulse", 40
N10 = RegimeChain.of([[289 / 290, 1 / 290], [1 / 290, 289 / 290]], [(0.0473, 0.3827), (0.4536, 0.0264)])
QUICKER = RegimeChain.of([[0.99, 0.01], [0.01, 0.99]], [(0.06, 0.4), (0.5, 0.04)])
SET, FLOOR = RegimeTheta.of([N10, QUICKER]), RegimeTheta.of([QUICKER])
TRUST = Trust((), (), 20.0, 1e-6)


def stream_policy(**changes: Any) -> StreamPolicy:
    fields: dict[str, Any] = {
        "states": ("low", "high"),
        "period_ms": 1000,
        "discretiser": Threshold(at=1.0),
        "theta": Assumption(start=theta_message(SET), floor=theta_message(FLOOR)),
        "adversary": "prior",
        "epsilon": Audiences(operator=4.0, public=2.0),
        "windows": {"short": Window(ticks=TICKS)},
    }
    return StreamPolicy(**(fields | changes))


@pytest.fixture(params=[1, 5])
def stride(request: pytest.FixtureRequest) -> int:
    """Every tick is published, or one of five."""
    return int(request.param)


def follow(at: Desk, **changes: Any) -> NoiseSetting:
    policy = Policy(version=1, cohort="test", streams={STREAM: stream_policy(**changes)})
    at.cohort.receive([Arrived(TOPICS.policy, signed(policy))])
    return at.cohort.calibrate()[STREAM].message


def window(at: Desk, number: int) -> None:
    """Three devices send a window of so many strides, and the clock moves past its end and the grace."""
    first = START + number * TICKS
    at.clock.tick = first + TICKS + 1
    for device in range(3):
        bits = bytes(random.Random(100 * number + device).choices((0, 1), k=TICKS))
        message = Batch(first=first, after=None, count=TICKS, bits=1, states=pack(bits, 1), noise=1)
        at.cohort.receive([Arrived(TOPICS.batch(f"d{device}", STREAM), encode(message))])


def test_a_stream_with_regimes_has_their_model() -> None:
    """And its Θ is stored and read back exactly."""
    model = model_of(stream_policy())
    assert isinstance(model, RegimeModel)
    assert model.fewest_ticks > 10 * 140
    assert read_theta(json.dumps(SET.as_tree())) == SET
    with pytest.raises(Problem, match="hidden regimes"):
        binary_theta_of(theta_message(SET))


def test_the_message_says_what_theta_says() -> None:
    """One chain may be written without a list; what is no chain is refused with its place."""
    message = theta_message(SET)
    assert RegimeThetaMessage.model_validate_json(message.model_dump_json()) == message
    assert message.chains == SET
    (alone,) = FLOOR.as_tree()["regimes"]
    assert (
        RegimeThetaMessage.model_validate_json(
            f'{{"regimes": {str(alone).replace(chr(39), chr(34))}}}'
        ).chains
        == FLOOR
    )
    wrong = {"regimes": ({"transition": ((0.5, 0.4),), "chains": ({"q": 0.1, "r": 0.2},)},)}
    with pytest.raises(ValueError, match="it must have 1 rows of 1 numbers"):
        RegimeThetaMessage.model_validate(wrong)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"adversary": "informed"}, 'the regime goes on behind it. Choose adversary = "prior"'),
        ({"windows": {"short": Window(ticks=TICKS, method="mqm-exact")}}, "use tilted-quilt"),
    ],
)
def test_a_policy_promises_only_what_is_proved(changes: dict[str, Any], words: str) -> None:
    """Against who knows states, and by quilts, nothing is: the policy is refused with what to write."""
    with pytest.raises(ValueError, match=words):
        stream_policy(**changes)


def test_the_start_contains_the_floor() -> None:
    """Chain by chain; regimes and intervals are not compared."""
    with pytest.raises(ValueError, match="start must contain floor"):
        Assumption(start=theta_message(FLOOR), floor=theta_message(SET))
    with pytest.raises(ValueError, match="both be"):
        Assumption.model_validate(
            {
                "start": theta_message(SET),
                "floor": {"q": {"low": 0.1, "high": 0.2}, "r": {"low": 0.1, "high": 0.2}},
            }
        )


@pytest.mark.parametrize("windows", [{}, {"own": DeviceWindow(ticks=100, scale=200.0)}])
def test_a_setting_is_made_that_the_device_accepts(tmp_path: Path, windows: dict[str, DeviceWindow]) -> None:
    """The device recomputes the loss for every chain, and hardly anything of ε is left lying about."""
    with desk(sqlite(tmp_path)) as at:
        setting = follow(at, device_windows=windows)
        stream = at.cohort.policy.streams[STREAM]
    check_noise(setting, stream, TRUST)
    tilt = stream.device_window_tilt
    loss = setting.noise.proven_loss(setting.theta.chains, tilt, "prior")
    assert 4.0 * (1 - 1e-3) < loss <= 4.0
    weaker = BinaryNoiseMessage(rho0=setting.noise.rho0 * 0.98, rho1=setting.noise.rho1 * 0.98)
    with pytest.raises(Rejected) as caught:
        check_noise(setting.model_copy(update={"noise": weaker}), stream, TRUST)
    assert caught.value.reason is Reason.LOSS_ABOVE_EPSILON
    other = theta_message(RegimeTheta.of([N10]))
    with pytest.raises(Rejected) as caught:
        check_noise(setting.model_copy(update={"theta": other}), stream, TRUST)
    assert caught.value.reason is Reason.THETA_NARROWER_THAN_FLOOR


def test_a_setting_for_a_stride_has_more_signal_and_is_refused_for_every_tick(tmp_path: Path) -> None:
    """The device prices the published ticks as far apart as they are."""
    with desk(sqlite(tmp_path)) as at:
        every = follow(at)
    with desk(sqlite(tmp_path / "strided")) as at:
        setting = follow(at, stride=5)
        stream = at.cohort.policy.streams[STREAM]
    check_noise(setting, stream, TRUST)
    assert binary_noise_of(setting.noise).signal > 1.5 * binary_noise_of(every.noise).signal
    with pytest.raises(Rejected) as caught:
        check_noise(setting, stream_policy(), TRUST)
    assert caught.value.reason is Reason.LOSS_ABOVE_EPSILON


def test_windows_are_released_charged_and_verified(tmp_path: Path, stride: int) -> None:
    """Releases of the cohort and of each device, within ε of the public under the start; verify recomputes it all."""
    with desk(sqlite(tmp_path)) as at:
        # Clock and batches number strides.
        follow(at, stride=stride, period_ms=1000 // stride, windows={"short": Window(ticks=stride * TICKS)})
        found: list[Release] = []
        for number in range(4):
            window(at, number)
            assert [one.refusal for one in at.cohort.close_due().windows] == [None]
            found += [decode(Release, one.payload) for one in at.cohort.unsent()]
        with at.engine.begin() as db:
            checks = {check.name: check.passed for check in verify_ledger(db, STREAM)}
    assert len(found) >= 4
    assert {release.stride for release in found} == {stride}
    assert all(release.theta == theta_message(SET) for release in found)
    assert all(0.0 < release.loss <= 2.0 for release in found)
    assert all(checks.values())


def test_evidence_narrows_theta_and_a_new_setting_follows(tmp_path: Path) -> None:
    """Devices with quick regimes send what their noise makes of them: once the slowest is excluded, a setting with
    more signal is made that a device accepts, and the ledger verifies.
    """
    quick, middle, slow = (
        RegimeCoordinates(0.5, slow_share, rate, 0.6).chain(0.5)
        for slow_share, rate in ((0.2, 1 / 10), (0.4, 1 / 40), (0.8, 1 / 400))
    )
    listed, left = RegimeTheta.of([quick, middle, slow]), RegimeTheta.of([quick, middle])
    ticks, devices = 4000, 10
    changes: dict[str, Any] = {
        "theta": Assumption(start=theta_message(listed), floor=theta_message(RegimeTheta.of([quick]))),
        "epsilon": Audiences(operator=5.0, public=5.0),
        "windows": {"long": Window(ticks=ticks)},
    }
    rng = np.random.default_rng(7)
    with desk(sqlite(tmp_path)) as at:
        first = follow(at, **changes)
        noise = binary_noise_of(first.noise)
        states = sanitized([quick] * devices, noise, stride=1, count=4 * ticks, rng=rng)
        for number in range(4):
            start = START + number * ticks
            at.clock.tick = start + ticks + 1
            for device, bits in enumerate(states[:, number * ticks : (number + 1) * ticks]):
                message = Batch(
                    first=start, after=None, count=ticks, bits=1, states=pack(bits.tobytes(), 1), noise=1
                )
                at.cohort.receive([Arrived(TOPICS.batch(f"d{device}", STREAM), encode(message))])
            assert [one.refusal for one in at.cohort.close_due().windows] == [None]
        second = at.cohort.calibrate()[STREAM].message
        stream = at.cohort.policy.streams[STREAM]
        with at.engine.begin() as db:
            checks = {check.name: check.passed for check in verify_ledger(db, STREAM)}
    assert (first.theta, second.theta) == (theta_message(listed), theta_message(left))
    assert second.version > first.version
    assert binary_noise_of(second.noise).signal > 1.2 * noise.signal
    check_noise(second, stream, TRUST)
    assert all(checks.values())
