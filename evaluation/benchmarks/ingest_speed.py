"""Steady ingest: the calibrator beside a bare paho subscriber on the same broker, at the same time, in processor time.

A thousand devices send a batch of 100 states at a common rate, one device after the other; both subscribers hear every
message. Then the broker queues messages of more and more devices while both are stopped. The bare one counts messages.
Ours counts their states durably and answers each device with `seen`, which is part of its time. Each is a process of
its own, and what is compared is the processor time it takes.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from paho.mqtt.client import Client, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion

from hushmq.broker.contract.messages import Batch, encode
from hushmq.broker.contract.packing import pack
from hushmq.broker.contract.policy_message import (
    Assumption,
    Audiences,
    Policy,
    StreamPolicy,
    Threshold,
    Window,
)
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.theta_message import theta_message
from hushmq.broker.contract.topics import Topics
from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.broker_process import write_private
from hushmq.broker.provision.nats import NatsServer
from hushmq.broker.service.log import logger
from hushmq.broker.service.settings_file import BrokerSection
from hushmq.calibrator.calibrator_config import Config, KeysSection, RosterSection
from hushmq.calibrator.daemon import Daemon
from hushmq.calibrator.store.open_database import sqlite_url
from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.growth import growth_row
from hushmq.evaluation.benchmarks.load_processes import PATIENCE_S, child, receive
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

DEVICES, STATES, PERIOD_MS = 1_000, 100, 5
BEHIND_MS = 30_000
T = Topics("steady")
STREAM = "motion"
THETA = BinaryTheta(0.15, 0.45, 0.15, 0.45)
AIMS = {100: 2.0, 10: 4.0}
"""By messages a second: times the processor time of bare paho."""
SECONDS = 20.0
BACKLOG = {1_000: 0.6, 5_000: 0.5, 20_000: 0.4}
"""By devices: the least share of bare paho's speed."""
BACKLOG_MESSAGES = 20_000


def run(*, devices: int = DEVICES, seconds: float = SECONDS) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="hushmq-steady-") as name, Steady(Path(name)) as steady:
        steady.send(devices, rate=500.0, seconds=devices / 500)  # every device is admitted
        for rate, aim in AIMS.items():
            spent = steady.send(devices, rate=rate, seconds=seconds)
            yield Row(
                f"steady ingest, {devices:,} devices, {rate} messages/s: share of a core",
                100 * spent.ours / seconds,
                "%",
                f"bare paho ({100 * spent.bare / seconds:.2f}%)",
                spent.ours / spent.bare,
                f"≤ {aim:g} × bare paho",
            )
            yield Row(
                f"the same at {rate} messages/s, for each message",
                1e3 * spent.ours / spent.messages,
                "ms",
                f"bare paho ({1e3 * spent.bare / spent.messages:.3f} ms)",
                spent.ours / spent.bare,
            )

        yield from _backlog(steady)


def _backlog(steady: Steady) -> Iterator[Row]:
    took: dict[int, float] = {}
    for devices, aim in BACKLOG.items():
        steady.send_at_once(devices, devices)  # every device is admitted
        spent = steady.send_at_once(devices, BACKLOG_MESSAGES)
        took[devices] = spent.ours
        yield Row(
            f"backlog, {devices:,} devices: for each message",
            1e6 * spent.ours / spent.messages,
            "µs",
            f"bare paho ({1e6 * spent.bare / spent.messages:.0f} µs), in processor time",
            spent.bare / spent.ours,
            f"≥ {aim:.0%} of bare paho",
        )
    yield growth_row(f"backlog of {BACKLOG_MESSAGES:,} messages over devices", took)


@dataclass(frozen=True, slots=True)
class Spent:
    """Processor seconds of both subscribers for so many messages."""

    messages: int
    bare: float
    ours: float


class OpenServer(NatsServer):
    """A broker on which one sender may speak for every device."""

    def command(self) -> list[str]:
        started = super().command()
        file = Path(started[-1])
        settings = json.loads(file.read_text(encoding="utf-8"))
        for user in settings["authorization"]["users"]:
            user["permissions"]["publish"] = {"allow": [">"]}
        write_private(file, json.dumps(settings))
        return started


class Steady:
    """Broker, sender and both subscribers."""

    def __init__(self, folder: Path) -> None:
        names = (("ops", "ops"), ("calibrator", "calibrator"), ("console", "console"))
        site = Site(T.cohort, tuple(Identity(role, name, "secret") for role, name in names))  # type: ignore[arg-type]  # all are roles
        self._server = OpenServer(site, folder / "broker")
        self._folder = folder
        self.cohort, self.database = T.cohort, sqlite_url(folder / "ledger.db")

    def __enter__(self) -> Steady:
        server = self._server.__enter__()
        ops, key = PrivateKey.generate(), PrivateKey.generate()
        self.port, self.ops, self.calibrator = server.port, str(ops.public), str(key.public)
        secret = self._folder / "password"
        secret.touch(mode=0o600)
        secret.write_text("secret")
        key.save(self._folder / "key")
        self._client = client(server.port, "sender", "ops")
        self._client.publish(T.policy, encode(ops.sign(policy())), qos=1, retain=True).wait_for_publish(10)
        self._bare = child(bare_process, server.port)
        self._ours = child(calibrator_process, self._folder, server.port, str(ops.public))
        self._pipes = self._bare.__enter__(), self._ours.__enter__()
        self._processes = [int(receive(pipe)) for pipe in self._pipes]
        self._last: dict[int, int] = {}
        self._turn = 0
        return self

    def __exit__(self, *raised: object) -> None:
        for one in (self._ours, self._bare):
            one.__exit__(None, None, None)
        self._client.disconnect()
        self._client.loop_stop()
        self._server.__exit__(*raised)  # type: ignore[arg-type]  # as given

    def send(self, devices: int, *, rate: float, seconds: float) -> Spent:
        """Send at this rate, and say what both subscribers took for it."""
        before = self._spent()
        began, sent = time.monotonic(), 0
        while time.monotonic() < began + seconds:
            while sent < (time.monotonic() - began) * rate and sent < rate * seconds:
                self._send_next(devices)
                sent += 1
            time.sleep(min(0.05, 0.2 / rate))
        return self._since(before, sent)

    def send_at_once(self, devices: int, messages: int) -> Spent:
        """Let the broker queue so many messages while both subscribers are stopped, and then let them go on."""
        before = self._spent()
        for process in self._processes:
            os.kill(process, signal.SIGSTOP)
        handed = [self._send_next(devices) for _ in range(messages)]
        for one in handed:
            one.wait_for_publish(60)
        for process in self._processes:
            os.kill(process, signal.SIGCONT)
        return self._since(before, messages)

    def _spent(self) -> list[tuple[int, float]]:
        return [_ask(pipe, "spent") for pipe in self._pipes]

    def _since(self, before: list[tuple[int, float]], sent: int) -> Spent:
        """Wait until both have heard everything and ours has answered, and say what they took."""
        deadline = time.monotonic() + PATIENCE_S
        while any(now[0] - then[0] < sent for now, then in zip(self._spent(), before, strict=True)):
            if time.monotonic() > deadline:
                raise RuntimeError(f"not all of {sent} messages were counted: {before}, now {self._spent()}")
            time.sleep(0.2)
        time.sleep(1.0)
        bare, ours = (now[1] - then[1] for now, then in zip(self._spent(), before, strict=True))
        return Spent(sent, bare, ours)

    def _send_next(self, devices: int) -> MQTTMessageInfo:
        device = self._turn % devices
        self._turn += 1
        before = self._last.get(device)
        # Some seconds ago: a device with a backlog sends many batches at once, and none may be in the future.
        first = int(time.time() * 1000 - BEHIND_MS) // PERIOD_MS if before is None else before + 1
        self._last[device] = first + STATES - 1
        batch = Batch(first=first, after=before, count=STATES, states=_STATES, noise=1)
        return self._client.publish(T.batch(f"device-{device}", STREAM), encode(batch), qos=1)


_STATES = pack([n % 3 & 1 for n in range(STATES)])


def _ask(pipe: Pipe, question: str) -> tuple[int, float]:
    pipe.send(question)
    heard, spent = receive(pipe)
    return int(heard), float(spent)


def policy() -> Policy:
    stream = StreamPolicy(
        states=("still", "moving"),
        period_ms=PERIOD_MS,
        discretiser=Threshold(at=1.0),
        theta=Assumption(start=theta_message(THETA), floor=theta_message(THETA)),
        epsilon=Audiences(operator=4.0, public=1.0),
        windows={"day": Window(ticks=86_400_000 // PERIOD_MS)},
    )
    return Policy(version=1, cohort=T.cohort, streams={STREAM: stream})


def client(port: int, client_id: str, name: str, *, in_flight: int = 20) -> Client:
    found = Client(CallbackAPIVersion.VERSION2, client_id=client_id)
    found.max_inflight_messages_set(in_flight)
    found.username_pw_set(name, "secret")
    connected = threading.Event()
    found.on_connect = lambda *_: connected.set()
    found.connect("127.0.0.1", port)
    found.loop_start()
    if not connected.wait(10):
        raise RuntimeError(f"{client_id} could not connect")
    return found


def bare_process(pipe: Pipe, port: int) -> None:
    heard = [0]
    subscribed = threading.Event()

    def hear(*_: object) -> None:
        heard[0] += 1

    subscriber = client(port, "bare", "calibrator")
    subscriber.on_message = hear
    subscriber.on_subscribe = lambda *_: subscribed.set()
    subscriber.subscribe(T.all("z"), 1)
    if not subscribed.wait(10):
        raise RuntimeError("the bare subscriber was not let in")
    pipe.send(os.getpid())
    while True:
        pipe.recv()
        pipe.send((heard[0], time.process_time()))


def calibrator_process(pipe: Pipe, folder: Path, port: int, ops: str) -> None:
    config = Config(
        cohort=T.cohort,
        database=sqlite_url(folder / "ledger.db"),
        broker=BrokerSection(
            urls=(f"mqtt://127.0.0.1:{port}",), username="calibrator", password_file=folder / "password"
        ),
        keys=KeysSection(ops_keys=(ops,), signing_key_file=folder / "key"),
        roster=RosterSection(admit_least=100_000),
    )
    daemon = Daemon(config, log=logger("error"))
    threading.Thread(target=daemon.run, daemon=True).start()
    deadline = time.monotonic() + 30
    while not daemon._served.settings and time.monotonic() < deadline:
        time.sleep(0.01)
    pipe.send(os.getpid())
    while True:
        pipe.recv()
        pipe.send((daemon._cohort.counted // STATES, time.process_time()))
