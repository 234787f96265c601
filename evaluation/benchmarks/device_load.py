"""A thousand devices on one broker over TLS: throughput, latency, and the knee of the load curve.

Four processes hold the devices, one connection each, and send batches of 100 states at a common rate that doubles
from step to step; one process is the ingest: it decodes, unpacks and stores every (device, tick). A batch's first
tick is the microsecond of its sample, so that its age on arrival is the time from sample to ingest. Beside it, on the
same broker, a bare paho publisher and a bare paho subscriber go as fast as they can.

The knee is the highest rate at which at least 99% of what was asked for is sent and the 99th percentile of the age
stays below a second, with nothing lost, and that is then held for four times as long: a rate that fails there gives
way to the next lower one. Nothing is claimed beyond it.
"""

from __future__ import annotations

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

from hushmq.broker.provision.access_rights import Identity, ServerTls, Site
from hushmq.broker.provision.authority import Authority
from hushmq.broker.provision.nats import NatsServer
from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.load_processes import (
    STATES,
    WINDOW,
    bare_rate,
    child,
    ingest_process,
    receive,
    senders_of,
)

DEVICES = 1000
PROCESSES = 4
RATES = (125, 250, 500, 1000, 2000, 4000, 8000)
STEP_S = 6.0


def run(*, devices: int = DEVICES, rates: Sequence[int] = RATES, step_s: float = STEP_S) -> list[Row]:
    busy = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="hushmq-load-") as folder,
        _broker(Path(folder), devices) as server,
    ):
        bare = bare_rate(server, step_s, WINDOW)
        wide = bare_rate(server, step_s, 4 * WINDOW)
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


def rows(devices: int, tried: Sequence[LoadStep], knee: LoadStep | None, bare: float) -> list[Row]:
    """The rows of all steps and of the knee; a row says so if no rate was carried and held."""
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
class LoadStep:
    """The measurements at one rate."""

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
) -> tuple[list[LoadStep], LoadStep | None]:
    """All steps tried, and the one that was held, if any."""
    with child(ingest_process, server.endpoint("calibrator")) as ingest:
        receive(ingest)
        endpoints = [server.endpoint(f"device-{n}") for n in range(devices)]
        with senders_of(endpoints, -(-devices // PROCESSES)) as senders:
            for sender in senders:
                receive(sender)
            return climb(lambda rate, seconds: _step(server, ingest, senders, rate, seconds), rates, step_s)


def climb(
    step: Callable[[int, float], LoadStep], rates: Sequence[int], step_s: float
) -> tuple[list[LoadStep], LoadStep | None]:
    """Step up until a rate is not carried, try the middle of the last two, then hold the highest for longer."""
    tried = list[LoadStep]()
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


def _step(server: NatsServer, ingest: Pipe, senders: list[Pipe], rate: int, step_s: float) -> LoadStep:
    pid = server.pid or 0
    cpu = _cpu(pid)
    ingest.send("begin")
    clients = receive(ingest)
    began = time.monotonic()
    with _watched(pid) as memory:
        for sender in senders:
            sender.send((rate / len(senders), step_s))
        answers = [receive(sender) for sender in senders]
        took = time.monotonic() - began
    sent = sum(sent for sent, _ in answers)
    ingest.send(sent)
    arrived, twice, ages, ingest_cpu = receive(ingest)
    ages = sorted(ages) or [float("inf")]
    return LoadStep(
        asked=rate,
        sent=sent,
        seconds=step_s,
        lost=sent - arrived,
        twice=twice,
        p50=ages[len(ages) // 2],
        p99=ages[int(len(ages) * 0.99)],
        broker_cpu=(_cpu(pid) - cpu) / took,
        client_cpu=(ingest_cpu - clients + sum(used for _, used in answers)) / took,
        slope=slope(memory) * 60,
        resident=_resident(pid),
    )


@contextmanager
def _watched(pid: int) -> Iterator[list[tuple[float, float]]]:
    """Seconds and resident megabytes of a process, four times a second."""
    seen, done = list[tuple[float, float]](), threading.Event()

    def measure() -> None:
        while not done.wait(0.25):
            seen.append((time.monotonic(), _resident(pid)))

    thread = threading.Thread(target=measure)
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


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    """Resident megabytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
