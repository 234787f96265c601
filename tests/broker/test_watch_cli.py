"""`hushmq watch`: what comes is printed, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.messages import Status, encode
from broker.process import BrokerProcess
from hushmq.__main__ import main
from tests.calibrator.running import Client
from tests.calibrator.site import OPS, TOPICS, desk, policy, signed, sqlite


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
def told(broker: BrokerProcess, tmp_path: Path) -> BrokerProcess:
    """A broker that retains one message of every kind, and one that is not of the contract."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        here.cohort.close_due()
        ((_, topic, payload),) = here.cohort.unsent()
        (ledger,) = here.cohort.accounts()
        setting = here.cohort.settings()["motion"]
    with Client(broker, "calibrator") as calibrator:
        calibrator.say(topic, payload, retain=True)
        calibrator.say(TOPICS.ledger("motion"), encode(ledger), retain=True)
        calibrator.say(TOPICS.noise("motion"), setting.payload, retain=True)
    with Client(broker, "ops") as ops:
        ops.say(TOPICS.policy, signed(policy()), retain=True)
    for name, payload in (("wearable-1", encode(Status(online=True, policy=1))), ("wearable-2", b"nonsense")):
        with Client(broker, name) as device:
            device.say(TOPICS.status(name), payload, retain=True)
    return broker


def test_lines_for_people(told: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Releases with errors and loss, and devices; what is not of the contract is named by its reason."""
    assert main(options(told, tmp_path, "ops")) == 0
    text = capsys.readouterr().out
    assert "still" in text
    assert "± " in text
    assert "online, policy 1" in text
    assert "wearable-2  malformed" in text
    assert OPS.public.id not in text


def test_json_lines(told: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every kind, one object a line."""
    kinds = ["release", "ledger", "noise", "policy"]
    given = [argument for kind in kinds for argument in ("--only", kind)]
    assert main([*options(told, tmp_path, "ops"), "--json", *given]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(found) == 4
    assert all(one["retained"] and one["message"]["v"] == 1 for one in found)


def test_a_subscriber_sees_releases(
    told: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --only release, whoever may read only releases can watch."""
    assert main([*options(told, tmp_path, "subscriber"), "--only", "release"]) == 0
    assert capsys.readouterr().out.startswith("release ")


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
    """One line that names the option."""
    assert main(["watch", *arguments]) == 2
    assert words in capsys.readouterr().err
