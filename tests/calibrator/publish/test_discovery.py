"""Entities are announced on real brokers, kept up to date, and removed."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hushmq.broker.contract.discovery_topics import announced_filters, announced_topic
from hushmq.broker.contract.messages import Status, encode
from hushmq.broker.contract.policy_message import Policy, Window
from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.broker_process import BrokerProcess, write_private
from hushmq.broker.provision.mosquitto import MosquittoServer
from hushmq.broker.service.log import logger
from hushmq.calibrator.calibrator_config import load
from hushmq.calibrator.publish import copied_topics, discovery
from hushmq.calibrator.publish.announced_entities import announced_entities
from hushmq.calibrator.publish.discovery import Discovery
from tests.broker import matrix
from tests.brokers import require_mosquitto
from tests.calibrator.running import Client, process, write_config
from tests.calibrator.site import TOPICS, policy, signed, wait_until

SITE = 'cohort = "test"\nhosts = ["localhost"]\ndevices = {}\n'
EVERYTHING = "homeassistant/#"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "READ_BACK_S", 0.3)
    monkeypatch.setattr(copied_topics, "READ_BACK_S", 0.3)
    monkeypatch.setattr(discovery, "TURN_S", 0.0)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerProcess]:
    """The Mosquitto of a home, which knows nothing of us: one user, who may do everything."""
    require_mosquitto()
    matrix.allow_witness(monkeypatch)
    site = Site("elsewhere", (Identity("ops", "witness", "witness-secret"),))
    with MosquittoServer(site, tmp_path / "home") as server:
        yield server


@contextmanager
def announcing(folder: Path, broker: BrokerProcess, section: str) -> Iterator[Discovery]:
    config = load(write_config(folder, broker, sections=f"[home_assistant]\n{section}"))
    assert config.home_assistant is not None
    running = Discovery(config, config.home_assistant, logger("error", "json", io.StringIO()))
    running.start()
    try:
        yield running
    finally:
        running.stop()


def retained(broker: BrokerProcess, name: str = "home-assistant", what: str = EVERYTHING) -> dict[str, bytes]:
    """What a Home Assistant finds that connects now."""
    with Client(broker, name, what) as reader:
        time.sleep(0.3)  # nothing tells that there is nothing more
        return {topic: heard[-1] for topic, heard in reader.heard.items() if heard[-1]}


def wanted(message: Policy, *devices: str) -> dict[str, bytes]:
    return announced_entities("homeassistant", message, devices)


def test_entities_come_and_go_with_policy_and_devices(broker: BrokerProcess, tmp_path: Path) -> None:
    """A window that the policy loses, a revoked device and what was announced before are removed.

    A broken site.toml changes nothing; `discovery = false` removes everything.
    """
    site = tmp_path / "site.toml"
    site.write_text(SITE.format('["wearable-1", "wearable-2"]'))
    two = policy(windows={"short": Window(ticks=20), "long": Window(ticks=200)})
    stale = announced_topic("homeassistant", "test", "sensor", "gone", "hour", "cohort", "1")
    with (
        Client(broker, "home-assistant", EVERYTHING) as reader,
        Client(broker, "calibrator") as before,
        announcing(tmp_path, broker, 'discovery = true\nsite_file = "site.toml"') as running,
    ):
        before.say(stale, b"{}", retain=True)

        def shown() -> dict[str, bytes]:
            running.update(followed, ["unlisted"])
            return {topic: heard[-1] for topic, heard in reader.heard.items() if heard[-1]}

        followed = two
        wait_until(lambda: shown() == wanted(two, "wearable-1", "wearable-2"))
        followed = policy()
        wait_until(lambda: shown() == wanted(followed, "wearable-1", "wearable-2"))
        site.write_text("no settings")
        for _ in range(20):
            assert shown() == wanted(followed, "wearable-1", "wearable-2")
        site.write_text(SITE.format('["wearable-2"]'))
        wait_until(lambda: shown() == wanted(followed, "wearable-2"))
    assert retained(broker) == wanted(followed, "wearable-2")
    with announcing(tmp_path, broker, "discovery = false") as running:
        wait_until(lambda: (running.update(followed, ["wearable-2"]), retained(broker) == {})[1])


def test_the_calibrator_announces_devices_that_tell_their_status(nats: BrokerProcess, tmp_path: Path) -> None:
    """Without the site's file; and nothing is announced unless a setting asks for it."""
    with Client(nats, "ops") as ops, Client(nats, "wearable-1") as device:
        ops.say(TOPICS.policy, signed(policy()), retain=True)
        device.say(TOPICS.status("wearable-1"), encode(Status(online=True)), retain=True)
        with Client(nats, "home-assistant", *announced_filters("homeassistant", "test")) as reader:
            section = "[home_assistant]\ndiscovery = true"
            with process(write_config(tmp_path, nats, sections=section)):
                wait_until(
                    lambda: {t: p[-1] for t, p in reader.heard.items()} == wanted(policy(), "wearable-1")
                )


def test_a_home_with_a_broker_of_its_own_gets_copies(
    nats: BrokerProcess, home: BrokerProcess, tmp_path: Path
) -> None:
    """Everything is retained there although NATS sends it without the flag; what the site clears is cleared there.

    A release that the home's broker has lost comes back; turning discovery off leaves the site's own topics alone.
    """
    write_private(tmp_path / "home.password", "witness-secret")
    address = f'[home_assistant.broker]\nurls = ["mqtt://localhost:{home.port}"]\n'
    address += 'username = "witness"\npassword_file = "home.password"'
    release, status = TOPICS.release("motion", "short", "cohort"), TOPICS.status("wearable-1")
    with Client(nats, "calibrator") as writer, Client(nats, "wearable-1") as device:
        device.say(status, b"here", retain=True)
        with announcing(tmp_path, nats, f"discovery = true\n{address}") as running:

            def shown() -> dict[str, bytes]:
                running.update(policy(), ["wearable-1"])
                return retained(home, "witness", "#")

            entities = wanted(policy(), "wearable-1")
            wait_until(lambda: shown() == entities | {status: b"here"})
            writer.say(release, b"share", retain=True)
            wait_until(lambda: shown() == entities | {status: b"here", release: b"share"})
            with Client(home, "witness") as careless:
                careless.say(release, b"", retain=True)
            wait_until(lambda: shown() == entities | {status: b"here", release: b"share"})
            device.say(status, b"", retain=True)
            wait_until(lambda: shown() == entities | {release: b"share"})
        with announcing(tmp_path, nats, f"discovery = false\n{address}") as running:
            wait_until(lambda: shown() == {release: b"share"})


def test_a_site_file_that_cannot_be_read_is_named(nats: BrokerProcess, tmp_path: Path) -> None:
    """At the start and by check-config, before anything is removed for want of devices."""
    with pytest.raises(Problem, match=r"^home_assistant\.site_file: .*none\.toml: No such file"):
        load(
            write_config(
                tmp_path, nats, sections='[home_assistant]\ndiscovery = true\nsite_file = "none.toml"'
            )
        )


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ('urls = ["mqtt://127.0.0.1:{port}"]', r"^home_assistant\.broker\.urls: .* is the site's own broker"),
        ('urls = ["http://h"]', r"^home_assistant\.broker\.urls: broker address 'http://h' is not valid"),
        (
            'urls = ["mqtt://h"]\nusername = "me"\npassword_file = "password"',
            r"^home_assistant\.broker\.urls: .* home_assistant\.broker\.password_in_clear_text = true$",
        ),
    ],
)
def test_a_home_broker_that_will_not_do_is_named(
    nats: BrokerProcess, tmp_path: Path, section: str, problem: str
) -> None:
    section = f"[home_assistant]\ndiscovery = true\n[home_assistant.broker]\n{section.format(port=nats.port)}"
    with pytest.raises(Problem, match=problem):
        load(write_config(tmp_path, nats, sections=section))
