"""What a cohort's topics say about its policy: the present one, and how far a new one has come."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from hushmq.broker.contract.messages import LedgerState, NoiseSetting, Policy, Status, decode
from hushmq.broker.contract.problem import Problem, Rejected
from hushmq.broker.contract.signature import Signed
from hushmq.broker.contract.topics import Topics, parse
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.mqtt.endpoint import Endpoint
from hushmq.broker.service.log import logger

State = Literal["applied", "waiting for noise", "refused", "silent", "offline"]
FINAL: frozenset[State] = frozenset({"applied", "refused", "offline"})
"""Nothing more is to be expected from a device in one of these."""
SETTLED_S = 1.0
"""After so long without news, what the broker retains has arrived."""


@dataclass(slots=True)
class Heard:
    """What has been heard so far."""

    policy: Policy | None = None
    settings: dict[str, NoiseSetting] = field(default_factory=dict)
    statuses: dict[str, Status] = field(default_factory=dict)
    ledgers: dict[str, LedgerState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one device has come with a version, and why if it has not."""

    state: State
    reason: str = ""


class Watcher:
    """Ops' view of one cohort."""

    def __init__(self, endpoints: Sequence[Endpoint], cohort: str) -> None:
        self.topics = Topics(cohort)
        self.heard = Heard()
        self._news = threading.Condition()
        self._at = time.monotonic()
        kinds: list[Literal["policy", "noise", "status", "ledger"]] = ["policy", "noise", "status", "ledger"]
        self._connection = Connection(
            endpoints=endpoints,
            client_id=f"ops-{cohort}-{time.monotonic_ns():x}",
            subscriptions=[self.topics.all(kind) for kind in kinds],
            on_message=self._hear,
            keep_session=False,
            log=logger("error"),
        )

    def open(self, timeout: float = 10.0) -> None:
        """Connect and wait until what the broker retains has arrived."""
        self._connection.start()
        if not self._connection.wait_connected(timeout):
            raise Problem(f"--broker: {self._connection.last_error or 'no answer'}")
        self._at = time.monotonic()
        while (quiet := time.monotonic() - self._at) < SETTLED_S:
            time.sleep(SETTLED_S - quiet)

    def close(self) -> None:
        self._connection.stop()

    def publish(self, policy: Policy, payload: bytes, timeout: float) -> None:
        """Publish, retained, and wait until it comes back: an acknowledgement alone proves nothing."""
        self._connection.publish(self.topics.policy, payload, retain=True)
        with self._news:
            back = self._news.wait_for(lambda: self.heard.policy == policy, timeout)
        if not back:
            raise Problem(
                f"--broker: the policy did not come back within {timeout:g} s: may this identity write "
                f"{self.topics.policy}?"
            )

    def wait_for_news(self, timeout: float) -> None:
        """Return when something has been heard, or time is up."""
        with self._news:
            self._news.wait(timeout)

    def progress(self, policy: Policy) -> dict[str, Progress]:
        """Every device that has ever reported, and how far it has come with the policy."""
        with self._news:
            return {device: _progress(one, policy) for device, one in sorted(self.heard.statuses.items())}

    def _hear(self, topic: str, payload: bytes, _retained: bool) -> None:
        address = parse(topic)
        if address is None or not payload:
            return
        with self._news:
            self._at = time.monotonic()
            try:
                match address.kind:
                    case "policy":
                        self.heard.policy = decode(Signed[Policy], payload).message
                    case "noise" if address.stream and address.device is None:
                        self.heard.settings[address.stream] = decode(Signed[NoiseSetting], payload).message
                    case "status" if address.device:
                        self.heard.statuses[address.device] = decode(Status, payload)
                    case "ledger" if address.stream:
                        self.heard.ledgers[address.stream] = decode(LedgerState, payload)
            except Rejected:
                return  # not of the contract: not ours to mend
            self._news.notify_all()


def _progress(status: Status, policy: Policy) -> Progress:
    if status.refused is not None and status.refused.version == policy.version:
        return Progress("refused", str(status.refused.reason))
    if status.policy != policy.version:
        return Progress("silent" if status.online else "offline")
    for name, stream in status.streams.items():
        if name in policy.streams and stream.noise is None:
            if stream.refused is not None:
                return Progress("refused", f"{name}: {stream.refused.reason}")
            return Progress("waiting for noise")
    return Progress("applied")


def settled(found: dict[str, Progress]) -> bool:
    """Whether nothing more is to be expected from any device that is online."""
    return all(one.state in FINAL for one in found.values())
