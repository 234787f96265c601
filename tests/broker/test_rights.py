"""Every role against every topic, reading and writing, tried on the running brokers.

A forbidden publish is acknowledged by both brokers, and a forbidden subscription granted by Mosquitto, so what
counts is what arrives.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import broker.mosquitto
import broker.nats
from broker.process import BrokerProcess
from broker.site import Identity, Rights, Site, rights
from broker.topics import Topics
from tests.broker.plain import Plain

T = Topics("test")
WITNESS = Identity("ops", "witness", "witness-secret")

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
    "ledger": T.ledger("motion"),
    "other cohort's policy": Topics("elsewhere").policy,
    "other cohort's release": Topics("elsewhere").release("motion", "hour", "cohort"),
    "below policy": f"{T.policy}/more",
    "nobody's": "hush/1/test/other",
    "outside": "somewhere/else",
}
READS = {
    "ops": set(TOPICS) - {"other cohort's policy", "other cohort's release", "outside"},
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
        *("own seen", "other seen", "own status", "other status", "release", "ledger"),
    },
    "subscriber": {"release"},
    "wearable-1": {"policy", "noise", "own noise", "own seen"},
}
WRITES = {
    "ops": {"policy"},
    "calibrator": {"noise", "own noise", "other noise", "own seen", "other seen", "release", "ledger"},
    "subscriber": set[str](),
    "wearable-1": {"own batch", "own status"},
}
WILDCARDS = [
    "#",
    "hush/#",
    "hush/1/#",
    "hush/1/+/policy",
    "hush/1/test/#",
    "hush/1/test/+/#",
    "+/+/+/z/#",
    "$SYS/#",
]


@pytest.fixture
def site(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The usual site, and a witness who may do everything."""

    def with_witness(cohort: str, identity: Identity) -> Rights:
        return Rights(("#",), ("#",)) if identity.name == "witness" else rights(cohort, identity)

    monkeypatch.setattr(broker.nats, "rights", with_witness)
    monkeypatch.setattr(broker.mosquitto, "rights", with_witness)
    return Site(site.cohort, (*site.identities, WITNESS))


@pytest.fixture
def witness(broker: BrokerProcess) -> Iterator[Plain]:
    with Plain(broker.endpoint("witness")) as plain:
        yield plain


def test_everybody_writes_exactly_what_they_may(broker: BrokerProcess, witness: Plain) -> None:
    """What an identity publishes arrives iff its role may write that topic, retained or not."""
    assert witness.subscribe("hush/#", "somewhere/#") == [1, 1]
    for name, may in WRITES.items():
        with Plain(broker.endpoint(name)) as writer:
            for label, topic in TOPICS.items():
                for retain in (False, True):
                    writer.publish(topic, f"{name} | {label} | {retain}".encode(), retain=retain)
            # All is acknowledged, so whatever was going to pass has passed before this:
            witness.publish(T.policy, f"{name} done".encode())
            witness.wait_payload(f"{name} done".encode())
        expected = {f"{name} | {label} | {retain}" for label in may for retain in (False, True)}
        arrived = {payload.decode() for payload in witness.payloads()}
        assert {payload for payload in arrived if payload.startswith(f"{name} | ")} == expected


def test_everybody_reads_exactly_what_they_may(broker: BrokerProcess, witness: Plain) -> None:
    """A subscription to every topic by name yields the retained and the live message iff the role may read it."""
    label_of = {topic: label for label, topic in TOPICS.items()}
    for topic in TOPICS.values():
        witness.publish(topic, b"retained", retain=True)
    with ExitStack() as stack:
        readers = {name: stack.enter_context(Plain(broker.endpoint(name))) for name in READS}
        for reader in readers.values():
            reader.subscribe(*TOPICS.values())
        for topic in TOPICS.values():
            witness.publish(topic, b"live")
        for name, reader in readers.items():
            witness.publish(TOPICS[min(READS[name])], f"fence {name}".encode())
            reader.wait_payload(f"fence {name}".encode())
            for kind in (b"live", b"retained"):
                got = {label_of[topic] for topic, payload, _ in reader.received if payload == kind}
                assert got == READS[name], f"{name} reads {kind.decode()}"


def test_wildcards_open_nothing(broker: BrokerProcess, witness: Plain) -> None:
    """Whatever wildcard is subscribed to, nothing arrives that the role may not read by name."""
    label_of = {topic: label for label, topic in TOPICS.items()}
    for topic in TOPICS.values():
        witness.publish(topic, b"retained", retain=True)
    with ExitStack() as stack:
        readers = {name: stack.enter_context(Plain(broker.endpoint(name))) for name in READS}
        for name, reader in readers.items():
            for wildcard in WILDCARDS:
                reader.subscribe(wildcard)
            reader.subscribe(TOPICS[min(READS[name])])
        for topic in TOPICS.values():
            witness.publish(topic, b"live")
        for name, reader in readers.items():
            witness.publish(TOPICS[min(READS[name])], f"fence {name}".encode())
            reader.wait_payload(f"fence {name}".encode())
            assert {label_of.get(topic, topic) for topic, _, _ in reader.received} <= READS[name], name


@pytest.mark.parametrize("name", ["calibrator", "subscriber", "wearable-1"])
def test_the_filters_of_a_role_are_granted_as_they_stand(broker: BrokerProcess, name: str) -> None:
    """Every filter in a role's rights can be subscribed to in one go."""
    granted = rights("test", broker.site.identity(name)).subscribe
    with Plain(broker.endpoint(name)) as reader:
        assert reader.subscribe(*granted) == [1] * len(granted)
