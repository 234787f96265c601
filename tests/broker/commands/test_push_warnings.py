"""What was found wrong with `hushmq push`: a stale answer, a past under another Θ, an unknown key, swapped names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hushmq.__main__ import main
from hushmq.broker.commands.push_warnings import renamed_in_place
from hushmq.broker.commands.rollout import Progress, progress_of
from hushmq.broker.contract.messages import Account, LedgerState, NoiseSetting, Refusal, Status, encode
from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Reason
from hushmq.broker.contract.signature import PrivateKey, verify
from hushmq.broker.contract.theta_message import theta_message
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import optimal_noise
from tests.agent.peer import CALIBRATOR
from tests.broker.commands.test_push_command import POLICY, options, stream_status, write
from tests.calibrator.running import Client
from tests.calibrator.site import OPS, STREAM, TOPICS, policy, signed, stream_policy, wait_until

MIDDLE = BinaryTheta(0.15, 0.45, 0.15, 0.45)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    OPS.save(tmp_path / "ops.key")
    return tmp_path / "ops.key"


def setting(version: int, for_policy: int, theta: BinaryTheta = MIDDLE) -> NoiseSetting:
    best = optimal_noise(theta, 4.0, "prior")
    return NoiseSetting(
        version=version,
        policy=for_policy,
        cohort="test",
        stream=STREAM,
        theta=theta_message(theta),
        noise=BinaryNoiseMessage(rho0=best.rho0, rho1=best.rho1),
    )


def applied_with(refused: Refusal | None) -> Status:
    return Status(online=True, policy=3, streams={STREAM: stream_status(None, refused)})


@pytest.mark.parametrize(
    ("refusal", "known", "expected"),
    [
        # Policy 2 was refused by all; the setting made for it does not fit policy 3, which they have just applied.
        (Refusal(version=7, reason=Reason.POLICY_MISMATCH), setting(7, 2), Progress("waiting for noise")),
        (Refusal(version=7, reason=Reason.LOSS_ABOVE_EPSILON), setting(7, 2), Progress("waiting for noise")),
        (Refusal(version=8, reason=Reason.POLICY_MISMATCH), setting(8, 3), Progress("waiting for noise")),
        (
            Refusal(version=8, reason=Reason.LOSS_ABOVE_EPSILON),
            setting(8, 3),
            Progress("refused", f"{STREAM}: loss-above-epsilon"),
        ),
        (None, setting(7, 2), Progress("waiting for noise")),
    ],
)
def test_a_refusal_of_an_older_setting_is_no_answer(
    refusal: Refusal | None, known: NoiseSetting, expected: Progress
) -> None:
    """Only the refusal of a setting made for this policy ends the roll-out of a device that has applied it."""
    assert progress_of("wearable-1", applied_with(refusal), policy(3), {STREAM: known}) == expected


def ledger(loss: float) -> LedgerState:
    both: Any = {"budget": 4.0, "loss": loss, "left": 4.0 - loss, "theta": theta_message(MIDDLE)}
    public: Any = {**both, "budget": 1.0, "loss": loss / 4, "left": 1.0 - loss / 4}
    return LedgerState(
        stream=STREAM, adversary="prior", entries=3, operator=Account(**both), public=Account(**public)
    )


@pytest.mark.parametrize(
    ("start", "over"), [("{low = 0.01, high = 0.45}", True), ("{low = 0.24, high = 0.36}", False)]
)
def test_a_changed_theta_prices_the_past(
    nats: BrokerProcess, tmp_path: Path, key: Path, start: str, over: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wider Θ leaves less than nothing of a spent budget, and a warning says so; a narrower one leaves something."""
    old = policy(4, adversary="prior")
    with Client(nats, "ops", TOPICS.policy) as ops, Client(nats, "calibrator") as calibrator:
        ops.say(TOPICS.policy, signed(old), retain=True)
        calibrator.say(TOPICS.noise(STREAM), encode(CALIBRATOR.sign(setting(1, 4))), retain=True)
        calibrator.say(TOPICS.ledger(STREAM), encode(ledger(4.0)), retain=True)
        wait_until(lambda: ops.heard[TOPICS.policy])
        text = POLICY.replace("{low = 0.15, high = 0.45}", start)
        path = write(tmp_path, text)
        capsys.readouterr()
        assert main(["push", path, *options(nats, key), "--dry-run", "--json"]) == 0
        left = json.loads(capsys.readouterr().out.splitlines()[-1])["streams"][STREAM]["left"]["operator"]
        assert main(["push", path, *options(nats, key), "--dry-run"]) == 0
        printed = capsys.readouterr().out
    assert left["repriced"] is True
    assert (left["after"] < -0.5) == over
    assert (left["after"] > 0.1) == (not over)
    assert ("is already spent" in printed) == over


def test_another_key_is_no_accident(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key that did not sign the policy in force replaces nothing, unless that is meant."""
    PrivateKey.generate().save(tmp_path / "other.key")
    with Client(nats, "ops", TOPICS.policy) as ops:
        ops.say(TOPICS.policy, signed(policy(4)), retain=True)
        wait_until(lambda: ops.heard[TOPICS.policy])
        given = options(nats, key)
        other = [word.replace("ops.key", "other.key") for word in given]
        assert main(["push", write(tmp_path), *other, "--yes"]) == 2
        assert "--key: " in (error := capsys.readouterr().err)
        assert OPS.public.id in error
        assert "--new-key" in error
        assert main(["push", write(tmp_path), *other, "--dry-run", "--new-key"]) == 0
        assert main(["push", write(tmp_path), *given, "--dry-run"]) == 0
        assert len(ops.heard[TOPICS.policy]) == 1


def test_signing_and_publishing_are_two_steps(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was signed elsewhere is published as it is, without the key; one that was changed is refused by devices."""
    out = tmp_path / "signed.json"
    assert main(["policy", "sign", write(tmp_path), "--key", str(key), "--out", str(out)]) == 2
    assert "--version: missing" in capsys.readouterr().err
    assert (
        main(["policy", "sign", write(tmp_path), "--key", str(key), "--version", "7", "--out", str(out)]) == 0
    )
    given = options(nats, key)[2:]
    key.unlink()
    with Client(nats, "ops", TOPICS.policy) as ops:
        assert main(["push", str(out), *given, "--yes", "--timeout", "0"]) == 0
        wait_until(lambda: ops.heard[TOPICS.policy])
        assert verify(Policy, ops.heard[TOPICS.policy][-1], [OPS.public]).version == 7
        capsys.readouterr()
        assert main(["push", str(out), *given, "--yes"]) == 2
        assert "version: 7 is not above 7" in capsys.readouterr().err


def test_a_site_checks_who_signed(tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the keys of ops are known, a policy that none of them signed is refused before it is published."""
    home = tmp_path / "home"
    assert main(["init", str(home), "--yes", "--listen", "127.0.0.1", "--port", "1"]) == 0
    out = tmp_path / "signed.json"
    assert (
        main(["policy", "sign", write(tmp_path), "--key", str(key), "--version", "7", "--out", str(out)]) == 0
    )
    capsys.readouterr()
    assert main(["push", str(out), "--site", str(home), "--dry-run"]) == 2
    assert "no ops key of" in capsys.readouterr().err


def test_swapped_names_are_warned_of() -> None:
    """The same names in another order invert what they mean, unless values are names themselves."""
    old = stream_policy()
    swapped = old.model_copy(update={"states": tuple(reversed(old.states))})
    words = renamed_in_place(old, swapped)
    assert words is not None
    assert f"what was {old.states[0]} is called {old.states[1]}" in words
    assert renamed_in_place(old, old) is None
    assert renamed_in_place(old, old.model_copy(update={"states": ("a", "b")})) is None
