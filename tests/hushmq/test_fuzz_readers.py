"""Messages of every kind, changed at random, to whoever else reads topics: watch, push, release readers, the console.

`make fuzz` runs it for longer.
"""

from __future__ import annotations

import random
from pathlib import Path

from hushmq import ReleaseReader
from hushmq.broker.commands.rollout import Watcher
from hushmq.broker.commands.watch_command import message_line
from hushmq.broker.contract.messages import NoiseSetting, encode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Endpoint
from hushmq.console.state.changes import Changes
from hushmq.console.state.live_site import LiveSite
from tests.mutations import mutated, rounds

STORED = Path(__file__).parents[1] / "broker" / "contract" / "stored"
OPS = PrivateKey(b"o" * 32)
T = Topics("test")
TOPICS = {
    "Batch": T.batch("d0", "motion"),
    "LedgerState": T.ledger("motion"),
    "NoiseSetting": T.noise("motion"),
    "Policy": T.policy,
    "Release": T.release("motion", "minute", "cohort"),
    "Seen": T.seen("d0"),
    "Status": T.status("d0"),
}
CORPUS = [
    (TOPICS[path.name.split("-")[0].removesuffix(".json")], path.read_bytes())
    for folder in ("v1", "signed")
    for path in sorted((STORED / folder).glob("*.json"))
]
"""Topics and right messages of every kind, as they are stored for the contract."""


def signed(payload: bytes) -> bytes:
    """A changed policy or setting under a signature that is trusted, where it is one; else as it is."""
    for model in (Policy, NoiseSetting):
        try:
            return encode(OPS.sign(model.model_validate_json(payload)))
        except Exception:  # noqa: BLE001, S112  # whatever is wrong with it
            continue
    return payload


def changed(rng: random.Random) -> tuple[str, bytes]:
    topic, right = rng.choice(CORPUS)
    if rng.random() < 0.1:
        topic = rng.choice(list(TOPICS.values()))
    payload = mutated(right, rng)
    return topic, signed(payload) if rng.random() < 0.5 else payload


def test_no_message_ends_who_reads_topics() -> None:
    """Each ignores or counts what it cannot read; none raises, and each still takes a right message afterwards."""
    nowhere = Endpoint("127.0.0.1", 1)
    watcher = Watcher([nowhere], "test")
    reader = ReleaseReader("mqtt://127.0.0.1:1", cohort="test")
    said: list[str] = []
    site = LiveSite("test", [OPS.public], [OPS.public], Changes(), lambda *words: said.append(words[2]))
    for number, rng in enumerate(rounds(60)):
        for _ in range(20):
            topic, payload = changed(rng)
            for as_json in (True, False):
                line = message_line(topic, payload, False, as_json=as_json)
                assert line is None or "\n" not in line, number
            watcher._receive(topic, payload, True)
            reader._on_message(topic, payload, True)
            site.receive(topic, payload, True)
        if watcher.received.policy is not None:
            watcher.progress(watcher.received.policy)
        assert watcher.received.highest_version >= 0
    before = reader.rejected
    right = dict(CORPUS)
    reader._on_message(TOPICS["Release"], right[TOPICS["Release"]], True)
    assert reader.rejected <= before + 1
    site.receive(TOPICS["Status"], right[TOPICS["Status"]], False)
    assert "d0" in site.devices
    assert site.rejected > 0
