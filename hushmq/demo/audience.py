"""The observers of the demo: an auditor with the rights of ops, and a plain subscriber who may read releases only.

The auditor records the messages of every topic and compares each sanitized state with the true one, which the demo
knows because it simulates the wearables.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from hushmq.broker.contract.messages import Batch, LedgerState, NoiseSetting, Release, Seen, Status, decode
from hushmq.broker.contract.packing import unpack
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Rejected
from hushmq.broker.contract.signature import Signed
from hushmq.broker.contract.topics import ROOT, Topics, parse
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.broker.mqtt.endpoint import Endpoint
from hushmq.demo.demo_plan import STREAM, DemoPlan

Flips = Counter[int]


@dataclass(slots=True)
class AuditorRecord:
    """The messages that the auditor has received."""

    statuses: dict[str, Status] = field(default_factory=dict)
    applied: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """By device: the noise versions it has reported; kept because the last will of a killed agent reports none."""
    settings: dict[int, NoiseSetting] = field(default_factory=dict)
    releases: list[Release] = field(default_factory=list)
    ledger: LedgerState | None = None
    received: int = 0
    """Sanitized states received, each (device, tick) once."""
    flips: dict[tuple[str, int], Flips] = field(default_factory=lambda: defaultdict(Counter))
    """By device and noise version: counts of the true states 0 and 1 (keys 0, 1) and of their flips (keys 2, 3)."""
    perturbed_twice: int = 0
    """(device, tick) pairs that appeared with two different values."""
    unreadable: list[str] = field(default_factory=list)
    """Topics with a message that is not of the contract."""


class Auditor:
    """The connection with the rights of ops, and the record of its messages."""

    def __init__(self, plan: DemoPlan, endpoint: Endpoint, log: Any) -> None:
        self._plan = plan
        self._chains = {wearable.name: wearable.chain() for wearable in plan.wearables}
        self._heard: dict[str, dict[int, int]] = defaultdict(dict)
        self._lock = threading.Lock()
        self.record = AuditorRecord()
        self.topics: set[str] = set()
        """Topics that may hold a retained message."""
        self._policy_came = threading.Event()
        self.connection = Connection(
            endpoints=[endpoint],
            client_id=f"ops-{plan.cohort}",
            subscriptions=[f"{ROOT}/{plan.cohort}/#"],
            on_message=self._on_message,
            keep_session=False,
            log=log,
        )

    def push_policy(self, *, timeout: float = 5.0) -> str | None:
        """Publishes the signed policy, retained, and waits until it is received; the reason if it is not, or None.

        An acknowledgement would not suffice: brokers acknowledge forbidden messages too.
        """
        topic = Topics(self._plan.cohort).policy
        self.connection.start()
        if not self.connection.wait_connected(timeout):
            return self.connection.last_error or "no answer"
        payload = self._plan.ops_key.sign(self._plan.policy).model_dump_json().encode()
        with contextlib.suppress(Offline):
            self.connection.publish(topic, payload, retain=True)
        if self._policy_came.wait(timeout):
            return None
        return self.connection.last_error or f"what is published to {topic} does not come back"

    def _on_message(self, topic: str, payload: bytes, _retained: bool) -> None:
        if not payload:
            return
        with self._lock:
            self.topics.add(topic)
            try:
                self._read(topic, payload)
            except Rejected:
                self.record.unreadable.append(topic)

    def _read(self, topic: str, payload: bytes) -> None:
        address, record = parse(topic), self.record
        match address.kind if address else None:
            case "policy":
                decode(Signed[Policy], payload)
                self._policy_came.set()
            case "noise":
                setting = decode(Signed[NoiseSetting], payload).message
                record.settings[setting.version] = setting
            case "z" if address and address.device:
                self._compare(address.device, decode(Batch, payload))
            case "seen":
                decode(Seen, payload)
            case "status" if address and address.device:
                status = decode(Status, payload)
                record.statuses[address.device] = status
                if STREAM in status.streams and (noise := status.streams[STREAM].noise) is not None:
                    record.applied[address.device].add(noise)
            case "release":
                release = decode(Release, payload)
                if all(release.entry != known.entry for known in record.releases):
                    record.releases.append(release)
            case "ledger":
                record.ledger = decode(LedgerState, payload)
            case _:
                record.unreadable.append(topic)

    def _compare(self, device: str, batch: Batch) -> None:
        """Compares a batch with the true states, or with an earlier copy of the same ticks."""
        states = unpack(batch.states, batch.count, batch.bits)
        heard = self._heard[device]
        if batch.first in heard:
            again = [heard.get(batch.first + offset) for offset in range(batch.count)]
            self.record.perturbed_twice += sum(
                old is not None and old != new for old, new in zip(again, states, strict=True)
            )
            return
        truth = self._chains[device].states(batch.first, batch.count)
        flips = self.record.flips[device, batch.noise]
        for offset, (true, sanitized) in enumerate(zip(truth, states, strict=True)):
            heard[batch.first + offset] = sanitized
            flips[true] += 1
            flips[true + 2] += true != sanitized
        self.record.received += batch.count


class Subscriber:
    """A plain paho subscriber, as an analyst writes it: subscribes to the stream too, and should get releases only."""

    def __init__(self, plan: DemoPlan, endpoint: Endpoint) -> None:
        self.releases = 0
        self.elsewhere: list[str] = []
        self._filters = [(f"{ROOT}/{plan.cohort}/release/#", 1), (f"{ROOT}/{plan.cohort}/z/#", 0)]
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=f"reader-{plan.cohort}")
        if endpoint.username is not None:
            self._client.username_pw_set(endpoint.username, endpoint.password)
        if endpoint.tls is not None:
            self._client.tls_set_context(endpoint.tls.context())
        self._client.on_connect = self._subscribe
        self._client.on_message = self._on_message
        self._endpoint = endpoint

    def start(self) -> None:
        self._client.connect_async(self._endpoint.host, self._endpoint.port)
        self._client.loop_start()

    def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _subscribe(self, client: mqtt.Client, *_: object) -> None:
        for one, qos in self._filters:  # one at a time: a broker may refuse a whole SUBSCRIBE for one filter
            client.subscribe(one, qos)

    def _on_message(self, _client: object, _data: object, message: mqtt.MQTTMessage) -> None:
        address = parse(message.topic)
        if address is not None and address.kind == "release":
            self.releases += 1
        else:
            self.elsewhere.append(message.topic)
