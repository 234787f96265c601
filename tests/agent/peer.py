"""The peer of the agent's tests: ops, and a small calibrator that counts each (stream, tick) once."""

from __future__ import annotations

import io
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hushmq.broker.contract.messages import Batch, Counted, NoiseSetting, Seen, Status, decode, encode
from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.contract.packing import unpack
from hushmq.broker.contract.policy_message import Assumption, Audiences, Policy, StreamPolicy, Threshold
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.theta_message import BinaryThetaMessage, theta_message
from hushmq.broker.contract.tick_runs import TickRuns
from hushmq.broker.contract.topics import Topics, parse
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.service.log import logger
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import optimal_noise

OPS, CALIBRATOR = PrivateKey(b"o" * 32), PrivateKey(b"c" * 32)
WIDE = theta_message(BinaryTheta(0.05, 0.5, 0.05, 0.5))
NARROW = theta_message(BinaryTheta(0.2, 0.3, 0.3, 0.4))
DEVICE = "wearable-1"


def wait_until(condition: Callable[[], Any], timeout: float = 20.0) -> None:
    """Wait for a condition; fail if it does not become true in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come about in time"
        time.sleep(0.01)


def stream_policy(**changes: Any) -> StreamPolicy:
    fields: dict[str, Any] = {
        "states": ("low", "high"),
        "period_ms": 2,
        "discretiser": Threshold(at=75.0),
        "theta": Assumption(start=WIDE, floor=NARROW),
        "epsilon": Audiences(operator=2.0, public=1.0),
        "windows": {},
    }
    return StreamPolicy(**(fields | changes))


def policy(version: int = 1, **changes: Any) -> Policy:
    return Policy(version=version, cohort="test", streams={"motion": stream_policy(**changes)})


def noise(
    version: int = 1, *, theta: BinaryThetaMessage = WIDE, epsilon: float = 2.0, **changes: Any
) -> NoiseSetting:
    best = optimal_noise(theta.chains, epsilon)
    fields: dict[str, Any] = {
        "version": version,
        "policy": 1,
        "cohort": "test",
        "stream": "motion",
        "theta": theta,
        "noise": BinaryNoiseMessage(rho0=best.rho0, rho1=best.rho1),
    }
    return NoiseSetting(**(fields | changes))


def sign(message: Policy | NoiseSetting, key: PrivateKey | None = None) -> bytes:
    return encode((key or (OPS if isinstance(message, Policy) else CALIBRATOR)).sign(message))


SIMULATED = """kind = "simulate"
q = 0.25
r = 0.35
seed = 7
low = 60.0
high = 90.0
start_tick = {start}"""


def write_config(
    folder: Path,
    port: int = 1,
    *,
    source: str = SIMULATED,
    sections: str = "",
    publish: str = "",
    device: str = DEVICE,
) -> Path:
    """Write a device's configuration file, with its password file beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    password = folder / "password"
    password.touch(mode=0o600)
    password.write_text(f"{device}-secret\n")
    path = folder / "agent.toml"
    path.write_text(f"""
device = "{device}"
cohort = "test"
folder = "{folder / "state"}"
[broker]
urls = ["mqtt://127.0.0.1:{port}"]
username = "{device}"
password_file = "{password}"
[trust]
ops_keys = ["{OPS.public}"]
calibrator_keys = ["{CALIBRATOR.public}"]
epsilon_max = 4.0
[publish]
{publish or "beat_ms = 50"}
status_ms = 100
resend_ms = 500
{sections}
[streams.motion.source]
{source.format(start=time.time_ns() // 2_000_000)}
""")
    return path


class Peer:
    """Ops and the calibrator on one broker: pushes settings, counts batches, publishes `seen`."""

    def __init__(self, broker: BrokerProcess, *, listening: bool = True) -> None:
        self.topics = Topics("test")
        self._listening = listening
        self._lock = threading.Lock()
        self.counted: dict[str, dict[int, int]] = defaultdict(dict)
        self.batches: list[Batch] = []
        self.payloads: dict[tuple[str, int], set[bytes]] = defaultdict(set)
        self._holes: dict[str, TickRuns] = defaultdict(TickRuns)
        self._highest: dict[str, int] = {}
        self.statuses: list[Status] = []
        quiet = logger("error", "json", io.StringIO())
        self._ops = Connection(endpoints=[broker.endpoint("ops")], client_id="ops", log=quiet)
        self._pusher = Connection(endpoints=[broker.endpoint("calibrator")], client_id="pusher", log=quiet)
        self._calibrator = Connection(
            endpoints=[broker.endpoint("calibrator")],
            client_id="calibrator",
            subscriptions=[self.topics.all("z"), self.topics.all("status")],
            on_message=self._on_message,
            on_change=lambda connected: self._tell() if connected else None,
            log=quiet,
        )

    def __enter__(self) -> Peer:
        self._ops.start()
        self._pusher.start()
        assert self._ops.wait_connected(10)
        assert self._pusher.wait_connected(10)
        if self._listening:
            self.listen()
        return self

    def listen(self) -> None:
        """Start counting."""
        self._calibrator.start()
        assert self._calibrator.wait_connected(10)

    def __exit__(self, *_: object) -> None:
        for connection in (self._ops, self._pusher, self._calibrator):
            connection.stop()

    def push(
        self, message: Policy | NoiseSetting | bytes, topic: str | None = None, *, by: str | None = None
    ) -> None:
        """Publish a setting, retained, and wait until the broker has it."""
        is_policy = isinstance(message, Policy) or by == "ops"
        if topic is None:
            topic = (
                self.topics.policy
                if is_policy
                else self.topics.noise("motion", getattr(message, "device", None))
            )
        payload = message if isinstance(message, bytes) else sign(message)
        done = threading.Event()
        connection = self._ops if is_policy else self._pusher
        assert connection.wait_connected(20)
        connection.publish(topic, payload, retain=True, on_acknowledged=done.set)
        assert done.wait(10)

    def _on_message(self, topic: str, payload: bytes, _retained: bool) -> None:
        address = parse(topic)
        assert address is not None
        if address.kind == "status":
            self.statuses.append(decode(Status, payload))
        else:
            self._count(address.stream or "", address.device or "", payload)

    def _count(self, stream: str, device: str, payload: bytes) -> None:
        batch = decode(Batch, payload)
        with self._lock:
            self.batches.append(batch)
            self.payloads[stream, batch.first].add(payload)
            highest = self._highest.get(stream, -1)
            if batch.after is not None and batch.after > highest:
                self._holes[stream].add(highest + 1, batch.after)
            self._holes[stream].remove(batch.first, batch.last)
            self._highest[stream] = max(highest, batch.last)
            for offset, state in enumerate(unpack(batch.states, batch.count, batch.bits)):
                known = self.counted[stream].setdefault(batch.first + offset, state)
                assert known == state, "a tick was perturbed twice"
        self._tell(device)

    def _tell(self, device: str = DEVICE) -> None:
        with self._lock:
            streams = {
                stream: Counted(highest=highest, holes=tuple(self._holes[stream]))
                for stream, highest in self._highest.items()
            }
        # Published again with the next batch and after a reconnect; batches are sent again until they are seen.
        with suppress(Offline):
            self._calibrator.publish(self.topics.seen(device), encode(Seen(streams=streams)), retain=True)

    @property
    def status(self) -> Status | None:
        return self.statuses[-1] if self.statuses else None

    def total(self, stream: str = "motion") -> int:
        return len(self.counted[stream])

    def no_tick_was_made_twice(self, stream: str = "motion") -> bool:
        """Whether repeated batches had the same bytes, and no two batches share a tick."""
        assert self._calibrator.failures == 0
        runs = TickRuns()
        for (name, first), payloads in self.payloads.items():
            if name == stream:
                (payload,) = payloads
                last = decode(Batch, payload).last
                if runs.overlaps(first, last):
                    return False
                runs.add(first, last)
        return True

    def balanced(self, stream: str = "motion") -> bool:
        """Whether sampled = counted + buffered + dropped in the last status."""
        said = self.status
        if said is None or stream not in said.streams:
            return False
        own = said.streams[stream]
        return own.sampled == self.total(stream) + own.buffered + own.dropped
