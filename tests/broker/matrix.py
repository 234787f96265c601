"""Tests every role against every topic of the cohort "test" on a running broker.

Both brokers acknowledge a forbidden publish, and Mosquitto grants a forbidden subscription, so only the messages
that arrive prove anything. An identity "witness" with all rights observes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from hushmq.broker.contract.discovery_topics import announced_topic
from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.endpoint import Endpoint
from hushmq.broker.provision import access_rights
from hushmq.broker.provision.access_rights import Identity, Rights, rights
from tests.broker.plain import Plain

T = Topics("test")

TOPICS = {
    "policy": T.policy,
    "noise": T.noise("motion"),
    "own noise": T.noise("motion", "wearable-1"),
    "other noise": T.noise("motion", "wearable-2"),
    "own batch": T.batch("wearable-1", "motion"),
    "other batch": T.batch("wearable-2", "motion"),
    "own batch, wrong shard": T.batch("wearable-2", "motion").replace("wearable-2", "wearable-1"),
    "own seen": T.seen("wearable-1"),
    "other seen": T.seen("wearable-2"),
    "own status": T.status("wearable-1"),
    "other status": T.status("wearable-2"),
    "release": T.release("motion", "hour", "cohort"),
    "own release": T.release("motion", "hour", "wearable-1"),
    "other release": T.release("motion", "hour", "wearable-2"),
    "ledger": T.ledger("motion"),
    "other cohort's policy": Topics("elsewhere").policy,
    "other cohort's release": Topics("elsewhere").release("motion", "hour", "cohort"),
    "below policy": f"{T.policy}/more",
    "nobody's": "hush/1/test/other",
    "outside": "somewhere/else",
    "announcement": announced_topic("homeassistant", "test", "sensor", "motion", "hour", "cohort", "1"),
    "announced device": announced_topic("homeassistant", "test", "binary_sensor", "wearable-1"),
    "other cohort's announcement": announced_topic("homeassistant", "elsewhere", "sensor", "motion"),
    "another program's announcement": "homeassistant/sensor/kettle/config",
    "announced lock": "homeassistant/lock/hushmq-test/door/config",
    "birth": "homeassistant/status",
}
ANNOUNCED = {"announcement", "announced device"}
LABELS = {topic: label for label, topic in TOPICS.items()}
READS = {
    "ops": {label for label, topic in TOPICS.items() if topic.startswith("hush/1/test/")},
    "calibrator": {
        *(
            "policy",
            "noise",
            "own noise",
            "other noise",
            "own batch",
            "other batch",
            "own batch, wrong shard",
        ),
        *("own seen", "other seen", "own status", "other status", "release", "own release"),
        *("other release", "ledger"),
        *ANNOUNCED,
    },
    "subscriber": {"release", "own release", "other release"},
    "wearable-1": {"policy", "noise", "own noise", "own seen"},
    "console": {
        *(
            "policy",
            "noise",
            "own noise",
            "other noise",
            "own status",
            "other status",
            "release",
            "own release",
        ),
        *("other release", "ledger"),
    },
    "home-assistant": {
        *("release", "own release", "other release", "own status", "other status"),
        *(label for label, topic in TOPICS.items() if topic.startswith("homeassistant/")),
    },
}
WRITES = {
    "ops": {"policy", "own status", "other status"},
    "calibrator": {
        "policy",
        "noise",
        "own noise",
        "other noise",
        "own seen",
        "other seen",
        "release",
        "own release",
        "other release",
        "ledger",
        *ANNOUNCED,
    },
    "subscriber": set[str](),
    "wearable-1": {"own batch", "own status", "own release"},
    "console": set[str](),
    "home-assistant": {"birth"},
}
WILDCARDS = [
    *("#", "hush/#", "hush/1/#", "hush/1/+/policy", "hush/1/test/#", "hush/1/test/+/#", "+/+/+/z/#"),
    *("homeassistant/#", "homeassistant/+/+/config", "homeassistant/+/+/+/config"),
    *("$SYS/#", "$MQTT/#", "$JS/#", "$share/group/#"),
]

Endpoints = Callable[[str], Endpoint]


def allow_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grant the identity "witness" all rights in configurations written from now on."""

    def with_witness(cohort: str, identity: Identity, prefix: str) -> Rights:
        return Rights(("#",), ("#",)) if identity.name == "witness" else rights(cohort, identity, prefix)

    monkeypatch.setattr(access_rights, "rights", with_witness)


def check_writes(endpoint: Endpoints) -> None:
    """What an identity publishes arrives iff its role may write that topic, retained or not."""
    with Plain(endpoint("witness")) as witness:
        assert witness.subscribe("hush/#", "somewhere/#", "homeassistant/#") == [1, 1, 1]
        for name, may in WRITES.items():
            with Plain(endpoint(name)) as writer:
                for label, topic in TOPICS.items():
                    for retain in (False, True):
                        writer.publish(topic, f"{name} | {label} | {retain}".encode(), retain=retain)
                # All messages are acknowledged, so every permitted one was delivered before this one:
                witness.publish(T.policy, f"{name} done".encode())
                witness.wait_payload(f"{name} done".encode())
            expected = {f"{name} | {label} | {retain}" for label in may for retain in (False, True)}
            arrived = {payload.decode() for payload in witness.payloads()}
            assert {payload for payload in arrived if payload.startswith(f"{name} | ")} == expected


def check_reads(endpoint: Endpoints) -> None:
    """A subscription to every topic by name yields the retained and the live message iff the role may read it."""
    with ExitStack() as stack:
        witness = stack.enter_context(Plain(endpoint("witness")))
        for topic in TOPICS.values():
            witness.publish(topic, b"retained", retain=True)
        readers = {name: stack.enter_context(Plain(endpoint(name))) for name in READS}
        for reader in readers.values():
            reader.subscribe(*TOPICS.values())
        _publish_live(witness, readers)
        for name, reader in readers.items():
            for kind in (b"live", b"retained"):
                got = {LABELS[topic] for topic, payload, _ in reader.received if payload == kind}
                assert got == READS[name], f"{name} reads {kind.decode()}"


def check_wildcards(endpoint: Endpoints) -> None:
    """No wildcard subscription delivers a message that the role may not read by name."""
    with ExitStack() as stack:
        witness = stack.enter_context(Plain(endpoint("witness")))
        for topic in TOPICS.values():
            witness.publish(topic, b"retained", retain=True)
        readers = {name: stack.enter_context(Plain(endpoint(name))) for name in READS}
        for name, reader in readers.items():
            for wildcard in WILDCARDS:
                reader.subscribe(wildcard)
            reader.subscribe(TOPICS[min(READS[name])])
        _publish_live(witness, readers)
        for name, reader in readers.items():
            assert {LABELS.get(topic, topic) for topic, _, _ in reader.received} <= READS[name], name


def _publish_live(witness: Plain, readers: dict[str, Plain]) -> None:
    """Publish once to every topic, then a message that each reader may receive, and wait for the latter."""
    for topic in TOPICS.values():
        witness.publish(topic, b"live")
    for name, reader in readers.items():
        witness.publish(TOPICS[min(READS[name])], f"fence {name}".encode())
        reader.wait_payload(f"fence {name}".encode())
