"""Everything that leaves an agent, beat by beat, when the test moves its clock: the agent's own code, no network.

Two runs are compared by what an operator could read without looking at a noisy state. `shape` removes from a message
only what carries noise: the states of a batch, and what is computed from the counts of a release.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from hushmq.agent.agent_config import load
from hushmq.agent.daemon import AgentDaemon
from hushmq.agent.device_report import metrics
from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.service.log import logger
from tests.agent.clocks import Hands
from tests.agent.peer import sign

NOISY = {
    "z": ("states",),
    "release": ("counts", "frequencies", "intervals"),
}
Sent = tuple[int, str, str, int]
"""The beat in which a message left, its topic, its content without noise, and its size where noise has none."""


def shape(topic: str, payload: bytes) -> tuple[str, int]:
    """What a message tells beside its noisy states."""
    tree: dict[str, Any] = json.loads(payload)
    noisy = NOISY.get(topic.split("/")[3], ())
    size = 0 if "counts" in noisy else len(payload)  # digits of noisy counts are noise, too
    for name in noisy:
        tree[name] = len(tree[name])
    return json.dumps(tree, sort_keys=True), size


class Wire:
    """A connection that is always there, and writes down what it is given."""

    connected, last_error, alive = True, None, True

    def __init__(self) -> None:
        self.beat = 0
        self.sent: list[Sent] = []
        self.batches: list[bytes] = []

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        on_acknowledged: Callable[[], None] | None = None,
    ) -> None:
        self.sent.append((self.beat, topic, *shape(topic, payload)))
        if topic.split("/")[3] == "z":
            self.batches.append(payload)
        if on_acknowledged is not None:
            on_acknowledged()

    def stop(self, timeout: float) -> None:
        """Nothing runs."""


class Driven:
    """An agent whose beats are made by the test."""

    def __init__(self, config: Path, hands: Hands, wire: Wire) -> None:
        self.log = io.StringIO()
        self.hands, self.wire = hands, wire
        self.agent = AgentDaemon(load(config, {}), log=logger("debug", "json", self.log), clock=hands.clock())
        self.agent._connection = self.agent._publisher._connection = cast("Connection", wire)
        self.agent._wait_for_seen = None  # `seen` has come: on this wire nobody is ever away
        refused = self.agent._settings.load(self.agent._periods()).refused
        assert not refused, [str(one) for one in refused]
        self.agent._streams.follow_settings(resume=True)

    @property
    def source(self) -> Any:
        return self.agent._streams.running["motion"].source

    def beat(self) -> None:
        """What `AgentDaemon._loop` does at a beat, and what it does when everything was acknowledged."""
        agent, now = self.agent, self.hands.steady_ns / 1e9
        self.wire.beat += 1
        agent._send(now, new=True)
        agent._publish_status(now, on_beat=True)
        agent._beat()
        while agent._streams.behind:
            agent._beat()
        if agent._settings_changed:
            agent._follow_settings()
        agent._handle_posted(0)
        agent._send(now)
        agent._publish_status(now)
        served = metrics(agent._report())
        self.wire.sent.append((self.wire.beat, "metrics", served, len(served)))

    def kill(self) -> None:
        """End it as kill -9 would: nothing is sampled or sent any more."""
        self.agent._streams.stop()
        self.agent._opened.close()


@contextmanager
def driven(config: Path, hands: Hands, wire: Wire) -> Iterator[Driven]:
    found = Driven(config, hands, wire)
    try:
        yield found
    finally:
        found.kill()


def store_settings(config: Path, policy: Policy, noise: NoiseSetting) -> None:
    """Leave the settings where an agent that was stopped has left them."""
    folder = load(config, {}).folder / "settings"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.json").write_bytes(sign(policy))
    (folder / "noise-motion.json").write_bytes(sign(noise))
