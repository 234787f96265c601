"""`hushmq watch` prints messages as they arrive, as text or JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushmq.__main__ import main
from hushmq.agent.device_windows import ClosedWindow, release
from hushmq.broker.commands.watch_command import _words
from hushmq.broker.contract.messages import Release, Status, decode, encode
from hushmq.broker.contract.policy_message import DeviceWindow
from hushmq.broker.contract.theta_message import CategoricalThetaMessage
from hushmq.broker.provision.broker_process import BrokerProcess, free_port
from tests.agent.activity import STATES, activity_noise, activity_policy
from tests.agent.peer import sign
from tests.calibrator.ledger.test_reconcile_ledger import charge, old_ledger, statement
from tests.calibrator.running import Client
from tests.calibrator.site import OPS, STREAM, TOPICS, desk, policy, signed, sqlite


def options(broker: BrokerProcess, folder: Path, name: str) -> list[str]:
    password = folder / f"{name}.password"
    password.touch(mode=0o600)
    password.write_text(f"{name}-secret\n")
    address = [
        "--broker",
        f"mqtt://127.0.0.1:{broker.port}",
        "--username",
        name,
        "--password-file",
        str(password),
    ]
    return ["watch", "--cohort", "test", *address, "--seconds", "1.5"]


@pytest.fixture
def publishing_broker(broker: BrokerProcess, tmp_path: Path) -> BrokerProcess:
    """A broker that retains one message of every kind, and an invalid one."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        here.cohort.close_due()
        (outgoing,) = here.cohort.unsent()
        (ledger,) = here.cohort.ledger_states()
        setting = here.cohort.calibrate()["motion"]
    with Client(broker, "calibrator") as calibrator:
        calibrator.say(outgoing.topic, outgoing.payload, retain=True)
        calibrator.say(TOPICS.ledger("motion"), encode(ledger), retain=True)
        calibrator.say(TOPICS.noise("motion"), setting.payload, retain=True)
    with Client(broker, "ops") as ops:
        ops.say(TOPICS.policy, signed(policy()), retain=True)
    for name, payload in (("wearable-1", encode(Status(online=True, policy=1))), ("wearable-2", b"nonsense")):
        with Client(broker, name) as device:
            device.say(TOPICS.status(name), payload, retain=True)
    return broker


def test_lines_for_people(
    publishing_broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Releases are shown with errors and loss, devices with their state, invalid messages with their reason."""
    assert main(options(publishing_broker, tmp_path, "ops")) == 0
    text = capsys.readouterr().out
    assert "still" in text
    assert "± " in text
    assert "online, policy 1" in text
    assert "wearable-2  malformed" in text
    assert OPS.public.id not in text


@pytest.mark.parametrize(
    ("online", "words"), [(True, "online, "), (False, "offline, "), (None, "presence hidden, ")]
)
def test_presence_is_shown_as_the_device_states_it(online: bool | None, words: str) -> None:
    assert _words(Status(online=online, policy=1)).startswith(f"{words}policy 1")


def test_both_numbers_of_an_account_are_shown(tmp_path: Path) -> None:
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        (state,) = here.cohort.ledger_states()
    account = state.operator.model_copy(update={"loss": 1.5, "undecided": 3.25})
    assert "operator 1.5000 of 4 (3.2500 undecided)" in _words(state.model_copy(update={"operator": account}))
    old = account.model_copy(update={"undecided": None})
    assert "operator 1.5000 of 4, public" in _words(state.model_copy(update={"operator": old}))


def test_a_stream_that_is_stopped_says_why(tmp_path: Path) -> None:
    """A ledger from an old backup: whoever watches is told, and told no more once ops have signed what was lost."""
    old_ledger(tmp_path)
    mark = tmp_path / "mark"
    with desk(sqlite(tmp_path), mark_path=mark) as here:
        (state,) = here.cohort.ledger_states()
        assert f"; STOPPED: {here.cohort.stopped[STREAM]}" in _words(state)
        charge(here, mark, statement(here, mark))
        assert here.cohort.resume()
        (state,) = here.cohort.ledger_states()
        assert "STOPPED" not in _words(state)


def test_json_lines(
    publishing_broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--json prints every kind of message, one object per line."""
    kinds = ["release", "ledger", "noise", "policy"]
    given = [argument for kind in kinds for argument in ("--only", kind)]
    assert main([*options(publishing_broker, tmp_path, "ops"), "--json", *given]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(found) == 4
    assert all(one["retained"] and one["message"]["v"] >= 1 for one in found)


def test_a_subscriber_sees_releases(
    publishing_broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --only release, an identity that may read only releases can watch."""
    assert main([*options(publishing_broker, tmp_path, "subscriber"), "--only", "release"]) == 0
    assert capsys.readouterr().out.startswith("release ")


def test_releases_and_noise_of_many_states(
    broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A release's few states are all shown, of many the most frequent; noise is described by what it preserves."""
    few = activity_policy(device_windows={"hour": DeviceWindow(ticks=100, scale=20.0)}).streams["motion"]
    closed = ClosedWindow("hour", 100, 199, (40, 30, 20, 10))
    made = release(closed, "motion", few, activity_noise(), device="wearable-1", entry=1)
    one = decode(Release, made.payload)
    wide = CategoricalThetaMessage(low=((0.05,) * 10,) * 10, high=((0.2,) * 10,) * 10)
    ten = {
        "states": tuple(f"bin-{n}" for n in range(10)),
        "counts": tuple(range(10)),
        "frequencies": tuple(n / 45 for n in range(10)),
        "standard_errors": (0.01,) * 10,
        "intervals": ((0.0, 1.0),) * 10,
        "theta": wide,
        "window": "day",
        "smoothed": tuple((n + 1) / 55 for n in range(10)),
        "smoothed_intervals": ((0.0, 0.5),) * 10,
    }
    with Client(broker, "wearable-1") as device, Client(broker, "calibrator") as calibrator:
        device.say(TOPICS.release("motion", "hour", "wearable-1"), made.payload, retain=True)
        many = one.model_copy(update=ten | {"scope": "cohort"})
        calibrator.say(TOPICS.release("motion", "day", "cohort"), encode(many), retain=True)
        calibrator.say(TOPICS.noise("motion"), sign(activity_noise()), retain=True)
    assert main([*options(broker, tmp_path, "ops"), "--only", "release", "--only", "noise"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (hour,) = (line for line in lines if "motion/hour" in line)
    (day,) = (line for line in lines if "motion/day" in line)
    assert all(f"{state} " in hour for state in STATES)
    assert "bin-9 0.2000 ± 0.0100, bin-8" in day
    assert "bin-2 0.0444 ± 0.0100 and 2 rarer; smoothed bin-9 0.1818 in 0.0000–0.5000, bin-8" in day
    assert "bin-2 0.0545 in 0.0000–0.5000; loss" in day
    assert "smoothed" not in hour
    assert any("version 1 for policy 1: kept 0." in line for line in lines)


def test_the_next_address_is_tried(
    publishing_broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--broker may be repeated: a node that does not answer is skipped."""
    given = options(publishing_broker, tmp_path, "subscriber")
    at = given.index("--broker")
    nowhere = ["--broker", f"mqtt://127.0.0.1:{free_port('127.0.0.1')}"]
    assert main([*given[:at], *nowhere, *given[at:], "--only", "release"]) == 0
    assert capsys.readouterr().out.startswith("release ")


def test_a_password_for_another_host_needs_tls_or_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the option the broker is tried: here there is none."""
    secret = tmp_path / "password"
    secret.touch(mode=0o600)
    secret.write_text("hidden")
    given = ["watch", "--cohort", "a", "--broker", "ws://host.invalid", "--password-file", str(secret)]
    assert main([*given, "--seconds", "0.1"]) == 2
    told = capsys.readouterr().err
    assert "--broker: ws://host.invalid:80/mqtt would send the password" in told
    assert "write wss://, or accept the risk with --password-in-clear-text" in told
    main([*given, "--seconds", "0.1", "--password-in-clear-text"])
    assert "would send the password" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cohort", "a b", "--broker", "mqtt://x"], "--cohort"),
        (["--cohort", "a", "--broker", "mqtt://x", "--seconds", "0"], "--seconds"),
        (["--cohort", "a", "--broker", "x"], "mqtt://host"),
        (["--cohort", "a", "--broker", "mqtt://x", "--certificate", "c.pem"], "--certificate-key"),
        (["--cohort", "a", "--broker", "mqtt://x", "--only", "z"], "--only"),
    ],
)
def test_bad_input(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error is one line that names the option."""
    assert main(["watch", *arguments]) == 2
    assert words in capsys.readouterr().err
