"""NATS against Mosquitto, both as we configure them, with persistence: one device to one reader.

QoS 1, the reader's session is kept, fifty messages in flight. The brokers take turns: both meet the same machine.
"""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import structlog

from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.provision.mosquitto import MosquittoServer, executable
from hushmq.broker.provision.nats import NatsServer
from hushmq.evaluation.benchmarks.benchmark_row import Row

TURNS = 3
SECONDS = 4.0
WINDOW = 50
PAYLOAD = bytes(150)
SITE = Site("pair", (Identity("calibrator", "reader", "r"), Identity("device", "writer", "w")))
_SILENT = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


def run(*, turns: int = TURNS, seconds: float = SECONDS) -> list[Row]:
    kinds: list[type[BrokerProcess]] = [NatsServer, MosquittoServer]
    try:
        executable()
    except Problem as problem:
        return [Row("NATS beside Mosquitto", None, "messages/s", str(problem))]
    found: dict[type[BrokerProcess], list[float]] = {kind: [] for kind in kinds}
    for _ in range(turns):
        for kind in kinds:
            with (
                tempfile.TemporaryDirectory(prefix="hushmq-pair-") as folder,
                kind(SITE, Path(folder)) as server,
            ):
                found[kind].append(_delivered(server, seconds))
    nats, mosquitto = (median(found[kind]) for kind in kinds)
    return [
        Row("NATS, one to one", nats, "messages/s", f"Mosquitto: {mosquitto:,.0f} /s", nats / mosquitto),
        Row("Mosquitto, saved every other second, one to one", mosquitto, "messages/s"),
    ]


def _delivered(server: BrokerProcess, seconds: float) -> float:
    """Messages per second that the reader receives while the writer sends as fast as it can."""
    topics, arrived, room = Topics("pair"), [0], threading.Semaphore(WINDOW)

    def count(_topic: str, _payload: bytes, _retained: bool) -> None:
        arrived[0] += 1

    reader = Connection(
        endpoints=[server.endpoint("reader")],
        client_id="reader",
        subscriptions=[topics.all("z")],
        on_message=count,
        log=_SILENT,
    )
    writer = Connection(endpoints=[server.endpoint("writer")], client_id="writer", window=WINDOW, log=_SILENT)
    try:
        for each in (reader, writer):
            each.start()
            if not each.wait_connected(30):
                raise RuntimeError(f"the broker cannot be used: {each.last_error}")
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if room.acquire(timeout=left):
                writer.publish(topics.batch("writer", "motion"), PAYLOAD, on_acknowledged=room.release)
        return arrived[0] / seconds
    finally:
        writer.stop()
        reader.stop()
