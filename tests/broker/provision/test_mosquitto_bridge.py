"""The bridge of a home's Mosquitto, as generated, between brokers that run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from hushmq.__main__ import main
from hushmq.broker.contract.discovery_topics import announced_topic
from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.endpoint import Endpoint
from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.broker_process import BrokerProcess, free_port
from hushmq.broker.provision.generate import BRIDGE, generate_bridge
from hushmq.broker.provision.mosquitto import MosquittoServer
from hushmq.broker.provision.site_description import Description
from hushmq.broker.provision.site_folder import SiteFolder
from tests.broker import matrix
from tests.broker.plain import Plain
from tests.broker.provision.test_generate import Generated
from tests.brokers import require_mosquitto

T = Topics("test")
BEFORE, LIVE = T.release("motion", "hour", "cohort"), T.release("motion", "day", "cohort")
ENTITY = announced_topic("homeassistant", "test", "sensor", "motion", "hour", "cohort", "1")


class Home(MosquittoServer):
    """The Mosquitto of a home, which includes what was generated."""

    def __init__(self, folder: Path, bridge: Path) -> None:
        self.bridge = bridge
        super().__init__(Site("elsewhere", (Identity("ops", "witness", "witness-secret"),)), folder)

    def write_configuration(self) -> Path:
        file = super().write_configuration()
        with file.open("a") as text:
            text.write(f"include_dir {self.bridge}\n")
        return file


def site(path: Path, identify: Literal["password", "certificate"]) -> SiteFolder:
    return SiteFolder.create(
        path,
        Description(
            cohort="test",
            hosts=("127.0.0.1",),
            listen="127.0.0.1",
            port=free_port("127.0.0.1"),
            identify=identify,
            devices=("wearable-1",),
            home_assistants=("home-assistant",),
        ),
    )


@pytest.fixture(params=["password", "certificate"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> SiteFolder:
    require_mosquitto()
    return site(tmp_path / "site", request.param)


@pytest.fixture
def home(folder: SiteFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    generate_bridge(folder, tmp_path / "bridge")
    with monkeypatch.context() as patched:
        matrix.allow_witness(patched)
        server = Home(tmp_path / "home", tmp_path / "bridge")
        server.start()
    try:
        yield server
    finally:
        server.stop()


def publish(endpoint: Endpoint, topic: str, payload: bytes) -> None:
    with Plain(endpoint) as writer:
        writer.client.publish(topic, payload, qos=1, retain=True).wait_for_publish(10)


def retained(home: BrokerProcess) -> set[str]:
    """What a Home Assistant finds there that starts now."""
    with Plain(home.endpoint("witness")) as reader:
        reader.subscribe("hush/#", "homeassistant/#")
        publish(home.endpoint("witness"), "hush/last", b"x")
        reader.wait(lambda: any(topic == "hush/last" for topic, *_ in reader.received), "the last message")
        found = {topic for topic, payload, kept in reader.received if kept and payload}
    publish(home.endpoint("witness"), "hush/last", b"")
    return found - {"hush/last"}


def test_what_home_assistant_shows_arrives_and_nothing_goes_back(
    folder: SiteFolder, home: Home, tmp_path: Path
) -> None:
    """Retained, also what is published later; the noisy stream stays out, and the home's messages at home."""
    with Generated("mosquitto", folder, tmp_path / "generated") as server:
        publish(server.endpoint("calibrator"), BEFORE, b"before")
        with Plain(home.endpoint("witness")) as reader, Plain(server.endpoint("ops")) as outside:
            reader.subscribe("#")
            outside.subscribe("hush/1/test/#")
            reader.wait(lambda: any(topic == BEFORE for topic, *_ in reader.received), "the bridge")
            publish(home.endpoint("witness"), T.release("motion", "hour", "forged"), b"forged")
            publish(server.endpoint("wearable-1"), T.batch("wearable-1", "motion"), b"noisy")
            publish(server.endpoint("wearable-1"), T.status("wearable-1"), b"here")
            publish(server.endpoint("calibrator"), LIVE, b"live")
            publish(server.endpoint("calibrator"), ENTITY, b"entity")
            reader.wait(lambda: any(topic == ENTITY for topic, *_ in reader.received), "the entity")
            assert T.batch("wearable-1", "motion") not in {topic for topic, *_ in reader.received}
            assert b"forged" not in {payload for _, payload, _ in outside.received}
        forged = T.release("motion", "hour", "forged")
        assert retained(home) == {BEFORE, LIVE, ENTITY, T.status("wearable-1"), forged}


def test_the_secret_is_in_private_files(folder: SiteFolder, tmp_path: Path) -> None:
    generate_bridge(folder, tmp_path / "b", path=Path("/etc/mosquitto/hushmq"))
    text = (tmp_path / "b" / BRIDGE).read_text()
    assert "/etc/mosquitto/hushmq/ca.pem" in text
    assert all(
        file.stat().st_mode & 0o777 == 0o600
        for file in (tmp_path / "b").iterdir()
        if file.name not in {"ca.pem", "certificate.pem"}
    )
    assert "password" not in os.listdir(tmp_path / "b")


@pytest.mark.parametrize(
    ("names", "words", "problem"),
    [
        (0, "", "there is none: add-device --role home-assistant"),
        (2, "", "there are ha-0, ha-1"),
        (1, "--identity ops", "there are ha-0"),
    ],
)
def test_an_identity_that_will_not_do_is_named(
    tmp_path: Path, names: int, words: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit code 2, and nothing is written."""
    made = site(tmp_path / "site", "password")
    made.change(made.description.with_names("home-assistant", tuple(f"ha-{n}" for n in range(names))))
    where = ["--site", str(tmp_path / "site"), "--out", str(tmp_path / "out")]
    assert main(["broker", "config", "mosquitto-bridge", *where, *words.split()]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
    assert main(["broker", "config", "nats", *where, "--identity", "ops"]) == 2
