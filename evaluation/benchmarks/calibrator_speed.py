"""The calibrator: ingest against a bare paho subscriber, and a charge against pricing the whole history.

Both subscribers drain the same number of queued messages from the same broker, one after the other: what is compared is
what each side does with a message, not how fast it is sent. Both clocks run from the first message on, the bare one's
to the last that is heard, ours to the commit that makes the last durable. On a busy machine the clock on the wall
favours whoever calls the system less often, which is ours; processor time does not.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from sqlalchemy import insert, update

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
from hushmq.broker.contract.theta_message import theta_message
from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.nats import NatsServer
from hushmq.broker.service.log import logger
from hushmq.broker.service.settings_file import BrokerSection
from hushmq.calibrator.calibrator_config import Config, KeysSection
from hushmq.calibrator.daemon import Daemon
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.ledger.audience_timelines import price_public
from hushmq.calibrator.ledger.debits import public_debits
from hushmq.calibrator.ledger.high_water_mark import EMPTY_HEAD, digest
from hushmq.calibrator.ledger.live_accounts import read_accounts
from hushmq.calibrator.ledger.window_spending import spending
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import sqlite_url
from hushmq.calibrator.windows.close_window import close_window
from hushmq.evaluation.benchmarks.benchmark_cohort import KEY, OPS, TOPICS, temporary_cohort
from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import optimal_noise

DEVICES, BATCHES, SAMPLES = 200, 60, 100
MESSAGES = DEVICES * BATCHES
NEARLY = MESSAGES * 99 // 100
"""Both clocks stop here: a message whose acknowledgement is lost in a reconnect is redelivered half a minute later."""
HISTORY_TICKS, WINDOW_TICKS = 1_000_000, 100
CHARGES = 200
THETA = BinaryTheta(0.15, 0.45, 0.15, 0.45)
STREAM = "motion"


def run() -> Iterator[Row]:
    yield from _ingest()
    yield from _charge()


def _policy(ticks: int) -> Policy:
    stream = StreamPolicy(
        states=("still", "moving"),
        period_ms=1,
        discretiser=Threshold(at=1.0),
        theta=Assumption(start=theta_message(THETA), floor=theta_message(THETA)),
        epsilon=Audiences(operator=4.0, public=1.0),
        # Learning is charged to the shortest window; the other is charged for its release only.
        windows={"shortest": Window(ticks=ticks - 1), "window": Window(ticks=ticks)},
    )
    return Policy(version=1, cohort="bench", streams={STREAM: stream})


def _batches(first: int) -> list[tuple[str, bytes]]:
    """Batches of all devices, interleaved."""
    states = bytes(n % 2 for n in range(SAMPLES))
    packed = pack(states)
    return [
        (
            TOPICS.batch(f"device-{device}", STREAM),
            encode(
                Batch(
                    first=first + number * SAMPLES,
                    after=None if not number else first + number * SAMPLES - 1,
                    count=SAMPLES,
                    states=packed,
                    noise=1,
                )
            ),
        )
        for number in range(BATCHES)
        for device in range(DEVICES)
    ]


def _ingest() -> list[Row]:
    alone = _ingest_alone()
    with tempfile.TemporaryDirectory() as name:
        bare, ours = _drain(Path(name))
    return [
        Row("calibrator: count batches of 100 samples, durably", alone, "samples/s", aim="≥ 300,000"),
        Row("bare paho subscriber, same messages", SAMPLES / bare.clock, "samples/s"),
        Row(
            "calibrator: from the broker to the database",
            SAMPLES / ours.clock,
            "samples/s",
            against="bare paho subscriber",
            ratio=bare.clock / ours.clock,
            aim="≥ 50% of bare paho, ≥ 300,000",
        ),
        Row(
            "the same in processor time",
            SAMPLES / ours.processor,
            "samples/s",
            against="bare paho subscriber",
            ratio=bare.processor / ours.processor,
            aim="≥ 50% of bare paho",
        ),
    ]


def _ingest_alone() -> float:
    with temporary_cohort(_policy(2**30)) as (cohort, _):
        cohort.calibrate()
        arrived = [Arrived(topic, payload) for topic, payload in _batches(int(time.time() * 1000) - 50_000)]
        began = time.perf_counter()
        for position in range(0, len(arrived), 500):
            cohort.receive(arrived[position : position + 500])
        took = time.perf_counter() - began
        if cohort.counted != MESSAGES * SAMPLES:
            raise RuntimeError(f"{cohort.counted} samples were counted of {MESSAGES * SAMPLES}")
    return MESSAGES * SAMPLES / took


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds per message."""

    clock: float
    processor: float


class Stopwatch:
    """A stopwatch that the first message starts and the `NEARLY`-th message stops."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.spent = Spent(0.0, 0.0)
        self._began: tuple[float, float] | None = None

    def start(self) -> None:
        if self._began is None:
            self._began = time.perf_counter(), time.process_time()

    def count(self, messages: float) -> None:
        if messages >= NEARLY and self._began is not None and not self.done.is_set():
            clock, processor = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
            self.spent = Spent(clock / messages, processor / messages)
            self.done.set()


class TimedDaemon(Daemon):
    """A daemon that records the arrival of the first batch and the messages counted after each transaction."""

    def __init__(self, config: Config, watch: Stopwatch) -> None:
        super().__init__(config, log=logger("error"))
        self._watch, self._before = watch, self._cohort.counted

    def _receive(self, topic: str, payload: bytes, retained: bool) -> None:
        if "/z/" in topic:
            self._watch.start()
        super()._receive(topic, payload, retained)

    def _turn(self, *, timeout: float, last: bool = False) -> None:
        super()._turn(timeout=timeout, last=last)
        self._watch.count((self._cohort.counted - self._before) / SAMPLES)


def _drain(folder: Path) -> tuple[Spent, Spent]:
    """The time per message of a bare paho subscriber and of the calibrator, from a full queue."""
    site = Site(
        "bench",
        (
            Identity("ops", "ops", "o"),
            Identity("calibrator", "calibrator", "c"),
            *(Identity("device", f"device-{n}", "d") for n in range(DEVICES)),
        ),
    )
    with NatsServer(site, folder / "broker") as server:
        secret = folder / "password"
        secret.touch(mode=0o600)
        secret.write_text("c")
        KEY.save(folder / "key")
        config = Config(
            cohort="bench",
            database=sqlite_url(folder / "ledger.db"),
            broker=BrokerSection(
                urls=(f"mqtt://127.0.0.1:{server.port}",), username="calibrator", password_file=secret
            ),
            keys=KeysSection(ops_keys=(str(OPS.public),), signing_key_file=folder / "key"),
        )
        _publish(server, "ops", [(TOPICS.policy, encode(OPS.sign(_policy(2**30))))], retain=True)
        with _running(config) as daemon:  # makes the subscription and the first setting
            _until(lambda: bool(daemon._served.settings))
        bare = _bare(server)  # makes its subscription
        bare.disconnect()
        batches = _batches(int(time.time() * 1000) - 30_000)
        by_device: dict[str, list[tuple[str, bytes]]] = {}
        for topic, payload in batches:
            by_device.setdefault(topic.split("/")[5], []).append((topic, payload))
        for device, own in by_device.items():
            _publish(server, device, own)
        return _time_bare(server), _time_ours(config)


def _time_bare(server: NatsServer) -> Spent:
    watch, count = Stopwatch(), 0

    def hear(*_: object) -> None:
        nonlocal count
        count += 1
        watch.start()
        watch.count(count)

    client = _bare(server, hear)
    if not watch.done.wait(120):
        raise RuntimeError(f"the bare subscriber got {count} of {MESSAGES} messages")
    client.loop_stop()
    client.disconnect()
    return watch.spent


def _time_ours(config: Config) -> Spent:
    watch = Stopwatch()
    with _running(config, watch):
        if not watch.done.wait(120):
            raise RuntimeError(f"the calibrator did not count {NEARLY} messages in time")
    return watch.spent


def _bare(server: NatsServer, hear: object = None) -> mqtt.Client:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="bare", clean_session=False)
    client.username_pw_set("calibrator", "c")
    subscribed = threading.Event()

    def subscribe(*_: object) -> None:
        client.subscribe(TOPICS.all("z"), 1)

    client.on_connect = subscribe
    client.on_subscribe = lambda *_: subscribed.set()
    client.on_message = hear  # type: ignore[assignment]  # None: nothing is expected yet
    client.connect(server.host, server.port)
    client.loop_start()
    if not subscribed.wait(10):
        raise RuntimeError("the bare subscriber was not let in")
    if hear is None:
        client.loop_stop()
    return client


@contextmanager
def _running(config: Config, watch: Stopwatch | None = None) -> Iterator[Daemon]:
    daemon = TimedDaemon(config, watch or Stopwatch())
    thread = threading.Thread(target=daemon.run)
    thread.start()
    try:
        yield daemon
    finally:
        daemon.stop()
        thread.join(20)


def _publish(
    server: NatsServer, name: str, messages: list[tuple[str, bytes]], *, retain: bool = False
) -> None:
    endpoint = server.endpoint(name)
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=f"publisher-{name}")
    client.username_pw_set(name, endpoint.password)
    client.connect(server.host, server.port)
    client.loop_start()
    handed = [client.publish(topic, payload, qos=1, retain=retain) for topic, payload in messages]
    for one in handed:
        one.wait_for_publish(60)
    client.disconnect()
    client.loop_stop()


def _until(condition: object, timeout: float = 120.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():  # type: ignore[operator]  # a plain callable
        if time.monotonic() > deadline:
            raise RuntimeError("it did not come about in time")
        time.sleep(0.002)


def _charge() -> list[Row]:
    """Closes windows at the end of a history of a million ticks, on disk."""
    stream = _policy(WINDOW_TICKS).streams[STREAM]
    noise = optimal_noise(THETA, 4.0, stream.adversary)
    spent = spending(stream, "window", theta=THETA, noises=[noise])
    with temporary_cohort(_policy(WINDOW_TICKS)) as (cohort, engine):
        cohort.calibrate()
        with engine.begin() as db:
            db.execute(update(store.setting).values(issued=0))  # the history is as old as time
            db.execute(insert(store.ledger), list(_history(spent.tilt, noise)))
            db.execute(
                insert(store.closed).values(stream="other", window="window", scope="cohort", through=0)
            )
            states = bytes(n % 2 for n in range(WINDOW_TICKS))
            db.execute(
                insert(store.batch),
                [
                    {
                        "device": f"device-{device}",
                        "stream": STREAM,
                        "first": HISTORY_TICKS + n * WINDOW_TICKS,
                        "last": HISTORY_TICKS + (n + 1) * WINDOW_TICKS - 1,
                        "noise": 1,
                        "states": states,
                    }
                    for n in range(CHARGES)
                    for device in range(4)
                ],
            )
        began = time.perf_counter()
        with engine.begin() as db:
            accounts = read_accounts(db, STREAM, stream, theta=THETA)
        taken_up = time.perf_counter() - began
        took, worked, disk = [], [], []
        for n in range(CHARGES):
            first = HISTORY_TICKS + n * WINDOW_TICKS
            span = Span(STREAM, "window", first, first + WINDOW_TICKS - 1)
            began, busy = time.perf_counter(), time.process_time()
            with engine.begin() as db:
                closed = close_window(db, span, accounts, TOPICS)
            if closed.charge is not None:
                accounts.public.commit(closed.charge.entry, closed.charge.proposed)
            took.append(time.perf_counter() - began)
            worked.append(time.process_time() - busy)
            if closed.charge is None:
                raise RuntimeError(f"refused: {closed.refusal}")
            began = time.perf_counter()
            with engine.begin() as db:
                # A different value each time: SQLite does not write an unchanged row.
                db.execute(
                    update(store.closed).where(store.closed.c.stream == "other").values(through=span.last)
                )
            disk.append(time.perf_counter() - began)
        began = time.perf_counter()
        with engine.begin() as db:
            price_public(public_debits(db, STREAM), THETA, stream)
        whole = time.perf_counter() - began
    median = statistics.median(took)
    name = f"calibrator: one charge after {HISTORY_TICKS:,} ticks, {HISTORY_TICKS // WINDOW_TICKS:,} entries"
    return [
        Row(
            f"{name}, median",
            median * 1000,
            "ms",
            against="pricing all entries",
            ratio=whole / median,
            aim="≤ 5 ms",
        ),
        Row(f"{name}, median of processor time", statistics.median(worked) * 1000, "ms", aim="≤ 5 ms"),
        Row("one row written in a transaction of its own, median", statistics.median(disk) * 1000, "ms"),
        Row(f"{name}, 99%", statistics.quantiles(took, n=100)[98] * 1000, "ms"),
        Row("calibrator: take up that ledger at start", taken_up, "s"),
    ]


def _history(tilt: int, noise: BinaryNoise) -> Iterator[dict[str, object]]:
    before = EMPTY_HEAD
    for n in range(HISTORY_TICKS // WINDOW_TICKS):
        fields: dict[str, object] = {
            "stream": STREAM,
            "window": "window",
            "scope": "cohort",
            "audience": "public",
            "first": n * WINDOW_TICKS,
            "last": (n + 1) * WINDOW_TICKS - 1,
            "tilt": tilt,
            "noise": 1,
            "noise_digest": noise.fingerprint,
            "why": "release",
            "at": "2026-01-01T00:00:00+00:00",
        }
        before = digest(before, fields)
        yield fields | {"digest": before}
