"""A thousand devices on one broker over TLS: how much goes through, how late it is, and where the knee lies.

Four processes hold the devices, one connection each, and send batches of 100 states at a common rate that doubles
from step to step; one process is the ingest: it decodes, unpacks and remembers every (device, tick). A batch's first
tick is the microsecond of its sample, so that its age on arrival is the time from sample to ingest. Beside it, on the
same broker, a bare paho publisher and a bare paho subscriber go as fast as they can.

The knee is the highest rate at which at least 99% of what was asked for is sent and the 99th percentile of the age
stays below a second, with nothing lost, and that is then held for four times as long: a rate that fails there gives
way to the next lower one. Nothing is claimed beyond it.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import linear_regression
from typing import Any

import structlog
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from hushmq.broker.contract.messages import Batch, decode, encode
from hushmq.broker.contract.packing import pack, unpack
from hushmq.broker.contract.topics import Topics, parse
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.broker.mqtt.endpoint import Endpoint
from hushmq.broker.provision.access_rights import Identity, ServerTls, Site
from hushmq.broker.provision.authority import Authority
from hushmq.broker.provision.nats import NatsServer
from hushmq.evaluation.benchmarks.benchmark_row import Row

DEVICES = 1000
PROCESSES = 4
STATES = 100
RATES = (125, 250, 500, 1000, 2000, 4000, 8000)
STEP_S = 6.0
WINDOW = 50
PATIENCE_S = 120.0
T = Topics("load")
_STATES = pack([n % 3 & 1 for n in range(STATES)])
_SILENT = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
_SPAWN = multiprocessing.get_context("spawn")


def run(*, devices: int = DEVICES, rates: Sequence[int] = RATES, step_s: float = STEP_S) -> list[Row]:
    busy = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="hushmq-load-") as folder,
        _broker(Path(folder), devices) as server,
    ):
        bare = _bare(server, step_s, WINDOW)
        wide = _bare(server, step_s, 4 * WINDOW)
        tried, knee = _climb(server, devices, rates, step_s)
    return [
        Row("other work on the machine", busy, "processes", f"{os.cpu_count()} cores"),
        Row("bare paho, one to one, TLS, QoS 1", bare, "messages/s", f"{WINDOW} in flight"),
        Row(
            f"the same with {4 * WINDOW} in flight",
            wide,
            "messages/s",
            f"{WINDOW} in flight: {bare:,.0f} /s",
            wide / bare,
        ),
        *rows(devices, tried, knee, bare),
    ]


def rows(devices: int, tried: Sequence[Step], knee: Step | None, bare: float) -> list[Row]:
    """What the ladder came to; without a rate that was carried and held, that there is none."""
    beyond = min((step for step in tried if not step.carried), key=lambda step: step.asked, default=None)
    failed = Row(
        "first rate not carried",
        beyond.asked if beyond else float("nan"),
        "messages/s",
        f"{beyond.sent_rate:,.0f} /s sent, p99 {beyond.p99 * 1e3:,.0f} ms, {beyond.lost} lost"
        if beyond
        else "the ladder ended: the knee lies higher",
    )
    if knee is None:
        return [Row(f"{devices} devices, TLS, QoS 1: no rate was carried", 0.0, "messages/s"), failed]
    at = f"at {knee.asked:,} /s"
    carried = [step for step in tried if step.carried]
    lowest = min(carried, key=lambda step: step.asked)
    return [
        Row(
            f"{devices} devices, TLS, QoS 1: messages/s at the knee",
            knee.sent_rate,
            "messages/s",
            f"bare paho, one to one: {bare:,.0f} /s",
            knee.sent_rate / bare,
        ),
        Row("states/s at the knee", knee.sent_rate * STATES, "states/s"),
        failed,
        Row("sample to ingest at the knee, p50", knee.p50 * 1e3, "ms", at),
        Row("sample to ingest at the knee, p99", knee.p99 * 1e3, "ms", at, aim="< 1 s"),
        Row("sample to ingest at the lowest rate, p50", lowest.p50 * 1e3, "ms", f"at {lowest.asked:,} /s"),
        Row("sample to ingest at the lowest rate, p99", lowest.p99 * 1e3, "ms", f"at {lowest.asked:,} /s"),
        Row("broker's CPU at the knee", knee.broker_cpu * 100, "% of a core", f"{os.cpu_count()} cores"),
        Row("clients' CPU at the knee", knee.client_cpu * 100, "% of a core", f"{os.cpu_count()} cores"),
        Row("broker's memory slope at the knee", knee.slope, "MB/min", f"{knee.resident:.0f} MB resident"),
        Row("lost, by tick, up to the knee", sum(step.lost for step in carried), "messages", aim="0"),
        Row("duplicates, by tick, up to the knee", sum(step.twice for step in carried), "messages"),
    ]


@dataclass(frozen=True, slots=True)
class Step:
    """What one rate of the ladder came to."""

    asked: int
    sent: int
    seconds: float
    lost: int
    twice: int
    p50: float
    p99: float
    broker_cpu: float
    client_cpu: float
    slope: float
    resident: float

    @property
    def sent_rate(self) -> float:
        return self.sent / self.seconds

    @property
    def carried(self) -> bool:
        return self.sent_rate >= 0.99 * self.asked and self.p99 < 1.0 and self.lost == 0


@contextmanager
def _broker(folder: Path, devices: int) -> Iterator[NatsServer]:
    authority = Authority.create(folder / "authority")
    authority.issue_server(["127.0.0.1"])
    names = [("calibrator", "calibrator"), *(("device", f"device-{n}") for n in range(devices))]
    site = Site("load", tuple(Identity(role, name, f"{name}-secret") for role, name in names))  # type: ignore[arg-type]  # both are roles
    with NatsServer(site, folder / "nats", tls=ServerTls(*authority.server, authority.certificate)) as server:
        yield server


def _climb(
    server: NatsServer, devices: int, rates: Sequence[int], step_s: float
) -> tuple[list[Step], Step | None]:
    """All steps tried, and the one that was held."""
    with _child(_ingest, server.endpoint("calibrator")) as ingest:
        _hear(ingest)
        endpoints = [server.endpoint(f"device-{n}") for n in range(devices)]
        with _children(endpoints, -(-devices // PROCESSES)) as senders:
            for sender in senders:
                _hear(sender)
            return climb(lambda rate, seconds: _step(server, ingest, senders, rate, seconds), rates, step_s)


def climb(
    step: Callable[[int, float], Step], rates: Sequence[int], step_s: float
) -> tuple[list[Step], Step | None]:
    """Step up until a rate is not carried, try the middle of the last two, then hold the highest for longer."""
    tried = list[Step]()
    for rate in rates:
        tried.append(step(rate, step_s))
        if not tried[-1].carried:
            break
    good = [one.asked for one in tried if one.carried]
    if good and len(good) < len(tried):
        middle = step((good[-1] + tried[-1].asked) // 2, step_s)
        tried.append(middle)
        good += [middle.asked] if middle.carried else []
    for rate in reversed(good):
        held = step(rate, 4 * step_s)
        tried.append(held)
        if held.carried:
            return tried, held
    return tried, None


def _step(server: NatsServer, ingest: Pipe, senders: list[Pipe], rate: int, step_s: float) -> Step:
    pid = server.pid or 0
    cpu = _cpu(pid)
    ingest.send("begin")
    clients = _hear(ingest)
    began = time.monotonic()
    with _watched(pid) as memory:
        for sender in senders:
            sender.send((rate / len(senders), step_s))
        told = [_hear(sender) for sender in senders]
        took = time.monotonic() - began
    sent = sum(sent for sent, _ in told)
    ingest.send(sent)
    arrived, twice, ages, ingest_cpu = _hear(ingest)
    ages = sorted(ages) or [float("inf")]
    return Step(
        asked=rate,
        sent=sent,
        seconds=step_s,
        lost=sent - arrived,
        twice=twice,
        p50=ages[len(ages) // 2],
        p99=ages[int(len(ages) * 0.99)],
        broker_cpu=(_cpu(pid) - cpu) / took,
        client_cpu=(ingest_cpu - clients + sum(used for _, used in told)) / took,
        slope=slope(memory) * 60,
        resident=_resident(pid),
    )


@contextmanager
def _watched(pid: int) -> Iterator[list[tuple[float, float]]]:
    """Seconds and resident megabytes of a process, four times a second."""
    seen, done = list[tuple[float, float]](), threading.Event()

    def look() -> None:
        while not done.wait(0.25):
            seen.append((time.monotonic(), _resident(pid)))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The rise of the least-squares line through the points."""
    if len(points) < 2:
        return 0.0
    x, y = zip(*points, strict=True)
    return linear_regression(x, y).slope


def _hear(pipe: Pipe) -> Any:
    """What a child has to say; an error when it says nothing, or has died."""
    if not pipe.poll(PATIENCE_S):
        raise RuntimeError(f"a process of the benchmark said nothing for {PATIENCE_S:g} s")
    return pipe.recv()


@contextmanager
def _child(target: Any, *arguments: Any) -> Iterator[Pipe]:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()  # so that a child's death is heard
    try:
        yield ours
    finally:
        process.kill()
        process.join()


@contextmanager
def _children(endpoints: list[Endpoint], share: int) -> Iterator[list[Pipe]]:
    if not endpoints:
        yield []
        return
    with _child(_send, endpoints[:share]) as first, _children(endpoints[share:], share) as rest:
        yield [first, *rest]


def _send(pipe: Pipe, endpoints: list[Endpoint]) -> None:
    """Hold one connection a device; on command, send at the rate told, one device after the other."""
    devices = [
        (
            Connection(endpoints=[each], client_id=str(each.username), log=_SILENT),
            T.batch(str(each.username), "motion"),
        )
        for each in endpoints
    ]
    for connection, _ in devices:
        connection.start()
    for connection, _ in devices:
        if not connection.wait_connected(120):
            raise RuntimeError(f"a device could not connect: {connection.last_error}")
    pipe.send("ready")
    last = 0
    while True:
        rate, seconds = pipe.recv()
        began, used, sent, turn = time.monotonic(), _own_cpu(), 0, 0
        while (now := time.monotonic()) < began + seconds:
            due = int((now - began) * rate) + 1
            if turn >= due:
                time.sleep(min(0.002, 1 / rate))
                continue
            connection, topic = devices[turn % len(devices)]
            turn += 1
            tick = max(last + STATES, time.monotonic_ns() // 1000)
            last = tick
            batch = Batch(first=tick, after=None, count=STATES, states=_STATES, noise=1)
            try:
                connection.publish(topic, encode(batch))
            except Offline:
                continue
            sent += 1
        pipe.send((sent, _own_cpu() - used))


def _ingest(pipe: Pipe, endpoint: Endpoint) -> None:
    """Decode and unpack all that comes; on command, tell what came since the last time."""
    seen, ages, twice, lock = set[tuple[str, int]](), list[float](), [0], threading.Lock()

    def take(topic: str, payload: bytes, _retained: bool) -> None:
        address = parse(topic)
        device = str(address and address.device)
        batch = decode(Batch, payload)
        unpack(batch.states, batch.count, batch.bits)
        age = time.monotonic_ns() / 1e9 - batch.first / 1e6
        with lock:
            key = (device, batch.first)
            twice[0] += key in seen
            seen.add(key)
            ages.append(age)

    connection = Connection(
        endpoints=[endpoint], client_id="calibrator", subscriptions=[T.all("z")], on_message=take, log=_SILENT
    )
    connection.start()
    connection.wait_connected(30)
    pipe.send("ready")
    while True:
        pipe.recv()
        with lock:
            seen.clear()
            ages.clear()
            twice[0] = 0
        pipe.send(_own_cpu())
        expected = pipe.recv()
        deadline = time.monotonic() + 10
        while len(seen) < expected and time.monotonic() < deadline:
            time.sleep(0.01)
        with lock:
            pipe.send((len(seen), twice[0], list(ages), _own_cpu()))


def _bare(server: NatsServer, seconds: float, window: int) -> float:
    """Messages a second from one bare paho publisher to one bare paho subscriber, TLS and QoS 1, same payload."""
    with (
        _child(_bare_subscriber, server.endpoint("calibrator")) as subscriber,
        _child(_bare_publisher, server.endpoint("device-0"), window) as publisher,
    ):
        _hear(subscriber)
        _hear(publisher)
        subscriber.send(seconds)
        publisher.send("go")
        rate = float(_hear(subscriber))
        publisher.send("stop")
        return rate


def _client(endpoint: Endpoint, window: int = WINDOW) -> Client:
    client = Client(CallbackAPIVersion.VERSION2)
    client.max_inflight_messages_set(window)
    client.username_pw_set(endpoint.username, endpoint.password)
    if endpoint.tls is not None:
        client.tls_set_context(endpoint.tls.context())
    client.connect(endpoint.host, endpoint.port)
    client.loop_start()
    while not client.is_connected():
        time.sleep(0.01)
    return client


def _bare_publisher(pipe: Pipe, endpoint: Endpoint, window: int) -> None:
    client = _client(endpoint, window)
    room = threading.Semaphore(window)
    client.on_publish = lambda *_: room.release()
    topic = T.batch("device-0", "motion")
    pipe.send("ready")
    pipe.recv()
    while not pipe.poll():
        batch = Batch(first=time.monotonic_ns() // 1000, after=None, count=STATES, states=_STATES, noise=1)
        room.acquire()
        client.publish(topic, encode(batch), qos=1)
    pipe.recv()


def _bare_subscriber(pipe: Pipe, endpoint: Endpoint) -> None:
    received = [0]
    subscribed, begun = threading.Event(), threading.Event()

    def count(*_: Any) -> None:
        received[0] += 1
        begun.set()

    client = _client(endpoint)
    client.on_message = count
    client.on_subscribe = lambda *_: subscribed.set()
    client.subscribe(T.all("z"), qos=1)
    subscribed.wait(PATIENCE_S)
    pipe.send("ready")
    seconds: float = pipe.recv()
    begun.wait(PATIENCE_S)
    before, began = received[0], time.monotonic()
    time.sleep(seconds)
    pipe.send((received[0] - before) / (time.monotonic() - began))
    pipe.recv()


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    """Resident megabytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
