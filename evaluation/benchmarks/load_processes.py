"""The processes of the load benchmark: devices that send, an ingest, and a bare publisher and subscriber of paho."""

from __future__ import annotations

import logging
import multiprocessing
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from typing import Any

import structlog
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from hushmq.broker.contract.messages import Batch, decode, encode
from hushmq.broker.contract.packing import pack, unpack
from hushmq.broker.contract.topics import Topics, parse
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.broker.mqtt.endpoint import Endpoint
from hushmq.broker.provision.nats import NatsServer

STATES = 100
WINDOW = 50
PATIENCE_S = 120.0
T = Topics("load")
_STATES = pack([n % 3 & 1 for n in range(STATES)])
_SILENT = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
_SPAWN = multiprocessing.get_context("spawn")


def receive(pipe: Pipe) -> Any:
    """The next message of a child process; RuntimeError after a timeout, EOFError if it has died."""
    if not pipe.poll(PATIENCE_S):
        raise RuntimeError(f"a process of the benchmark sent nothing for {PATIENCE_S:g} s")
    return pipe.recv()


@contextmanager
def child(target: Any, *arguments: Any) -> Iterator[Pipe]:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()  # so that the end of the child closes the pipe
    try:
        yield ours
    finally:
        process.kill()
        process.join()


@contextmanager
def senders_of(endpoints: list[Endpoint], share: int) -> Iterator[list[Pipe]]:
    if not endpoints:
        yield []
        return
    with child(_send, endpoints[:share]) as first, senders_of(endpoints[share:], share) as rest:
        yield [first, *rest]


def _send(pipe: Pipe, endpoints: list[Endpoint]) -> None:
    """Holds one connection per device; on command, sends at the given rate, one device after the other."""
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


def ingest_process(pipe: Pipe, endpoint: Endpoint) -> None:
    """Decodes and unpacks all batches; on command, reports those received since the last command."""
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


def bare_rate(server: NatsServer, seconds: float, window: int) -> float:
    """Messages per second from one bare paho publisher to one bare paho subscriber, TLS and QoS 1, same payload."""
    with (
        child(_bare_subscriber, server.endpoint("calibrator")) as subscriber,
        child(_bare_publisher, server.endpoint("device-0"), window) as publisher,
    ):
        receive(subscriber)
        receive(publisher)
        subscriber.send(seconds)
        publisher.send("go")
        rate = float(receive(subscriber))
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
