"""The console: views of 1,000 devices and a year of hourly releases, live updates, memory, and ingest beside it.

The console is a process of its own on a real broker. A view is one request over loopback, from asking to the last byte;
the first of each page in a console that has just started. A live update is timed from handing a device's status to the
broker until its row arrives on an open page. For ingest, the calibrator's processor time is taken over equal stretches
of the same traffic, in which the console runs with an operator who opens a page every second, or is stopped.
"""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from paho.mqtt.client import Client
from sqlalchemy import Connection, Engine, insert, select

from hushmq.broker.contract.messages import Release, Status, StreamStatus, encode
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
from hushmq.calibrator.ledger.high_water_mark import EMPTY_HEAD, digest
from hushmq.calibrator.store import tables as store
from hushmq.evaluation.benchmarks.benchmark_cohort import KEY, OPS, TOPICS, temporary_cohort
from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.console_process import RunningConsole, running_console, visited
from hushmq.evaluation.benchmarks.ingest_speed import OpenServer, Steady, client
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

DEVICES, RELEASES, HOUR = 1_000, 8_760, 60
STREAM, WINDOW = "motion", "hour"
THETA = BinaryTheta(0.15, 0.45, 0.15, 0.45)
VIEWS = {
    "Site": "/",
    "Devices": "/devices",
    "Releases": "/releases",
    "Releases, the whole year": "/releases?span=all",
    "Promise": "/promise",
    "Ledger": "/ledger",
}
UPDATES, AGAIN = 20, 5
RATE, STRETCH_S, PAIRS = 250.0, 6.0, 6
IMPORTED = (
    "import hushmq.calibrator.daemon, os; "
    "print(int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGE_SIZE') / 2**20)"
)


def run(*, devices: int = DEVICES, releases: int = RELEASES) -> Iterator[Row]:
    with _year(devices, releases) as (console, sender):
        yield from _views(console)
        yield from _updates(console, sender)
        yield from _memory(console)
    yield from _beside()


def policy() -> Policy:
    stream = StreamPolicy(
        states=("still", "moving"),
        period_ms=60_000,
        discretiser=Threshold(at=1.0),
        theta=Assumption(start=theta_message(THETA), floor=theta_message(THETA)),
        epsilon=Audiences(operator=4.0, public=1.0),
        windows={WINDOW: Window(ticks=HOUR)},
    )
    return Policy(version=1, cohort=TOPICS.cohort, streams={STREAM: stream})


@contextmanager
def _year(devices: int, releases: int) -> Iterator[tuple[RunningConsole, Client]]:
    """A site whose database and broker hold the releases and devices, a console that has heard of all, and a sender."""
    site = Site(TOPICS.cohort, (Identity("ops", "ops", "secret"), Identity("console", "console", "secret")))
    with (
        tempfile.TemporaryDirectory(prefix="hushmq-console-") as name,
        temporary_cohort(policy()) as (cohort, engine),
        OpenServer(site, Path(name) / "broker") as server,
    ):
        cohort.calibrate()
        newest = fill(engine, devices, releases)
        with engine.connect() as db:
            settings = db.execute(select(store.setting.c.payload)).scalars().all()
        sender = client(server.port, "sender", "ops")
        messages = [(TOPICS.policy, encode(OPS.sign(policy())))]
        messages += [(TOPICS.noise(STREAM), payload) for payload in settings[-1:]]
        messages += [(TOPICS.release(STREAM, WINDOW, "cohort"), encode(newest))]
        messages += [(TOPICS.status(f"device-{n}"), status(n)) for n in range(devices)]
        for one in [sender.publish(topic, payload, qos=1, retain=True) for topic, payload in messages]:
            one.wait_for_publish(30)
        try:
            with running_console(
                Path(name) / "console",
                broker=f"mqtt://127.0.0.1:{server.port}",
                cohort=TOPICS.cohort,
                database=str(engine.url),
                ops=str(OPS.public),
                calibrator=str(KEY.public),
            ) as console:
                time.sleep(2.0)  # it hears of the devices; asking whether it has would be a view
                yield console, sender
        finally:
            sender.disconnect()
            sender.loop_stop()


def status(sampled: int) -> bytes:
    one = StreamStatus(noise=1, sampled=sampled + 100, buffered=0, dropped=0)
    return encode(Status(online=True, policy=1, streams={STREAM: one}))


def fill(engine: Engine, devices: int, releases: int) -> Release:
    """Write so many hourly releases and devices as the calibrator would, and return the newest release."""
    start = (int(time.time()) // 60 // HOUR - releases) * HOUR
    with engine.begin() as db:
        for n in range(0, releases, 500):
            newest = _write(db, start, range(n, min(releases, n + 500)), devices)
        last = newest.last
        names = [{"device": f"device-{n}", "stream": STREAM} for n in range(devices)]
        db.execute(insert(store.roster), [{**one, "since": start, "admitted": 0} for one in names])
        db.execute(insert(store.accounted), [{**one, "first": start, "last": last} for one in names])
        db.execute(insert(store.tally), [{**one, "counted": last - start, "late": 0} for one in names])
        db.execute(insert(store.closed).values(stream=STREAM, window=WINDOW, scope="cohort", through=last))
    return newest


def _write(db: Connection, start: int, numbers: range, devices: int) -> Release:
    """Some of the releases, with their entries; returns the last."""
    before = db.execute(select(store.ledger.c.digest).order_by(store.ledger.c.id.desc()).limit(1)).scalar()
    head, entries, rows = before or EMPTY_HEAD, [], []
    for n in numbers:
        one = _release(n, start + n * HOUR, devices)
        fields: dict[str, object] = {
            "stream": STREAM,
            "window": WINDOW,
            "scope": "cohort",
            "audience": "public",
            "first": one.first,
            "last": one.last,
            "tilt": one.tilt,
            "noise": 1,
            "noise_digest": "0" * 32,
            "why": "release",
            "at": "2026-01-01T00:00:00+00:00",
        }
        head = digest(head, fields)
        entries.append({"id": one.entry, **fields, "digest": head})
        topic = TOPICS.release(STREAM, WINDOW, "cohort")
        rows.append({"entry": one.entry, "topic": topic, "payload": encode(one), "sent": True})
    db.execute(insert(store.ledger), entries)
    db.execute(insert(store.release), rows)
    return one


def _release(number: int, first: int, devices: int) -> Release:
    share = 0.3 + 0.1 * math.sin(number * math.tau / 24) + 0.02 * math.sin(number * 1.7)
    shares, ticks = (1 - share, share), devices * HOUR
    around = tuple((one - 0.012345678901, one + 0.012345678901) for one in shares)
    return Release(
        stream=STREAM,
        window=WINDOW,
        scope="cohort",
        first=first,
        last=first + HOUR - 1,
        devices=devices,
        ticks=ticks,
        states=("still", "moving"),
        counts=tuple(round(one * ticks) for one in shares),
        frequencies=shares,
        standard_errors=(0.006, 0.006),
        intervals=around,
        scale=1000.0,
        tilt=1_000_000,
        loss=0.5,
        budget=1.0,
        adversary="prior",
        theta=theta_message(THETA),
        entry=number + 1,
        smoothed=shares,
        smoothed_intervals=around,
    )


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - began)


def _views(console: RunningConsole) -> Iterator[Row]:
    for name, path in VIEWS.items():
        used = console.processor_s()
        first = _timed(lambda path=path: console.get(path))  # type: ignore[misc]  # a loop's value
        used = 1e3 * (console.processor_s() - used)
        again = statistics.median(_timed(lambda path=path: console.get(path)) for _ in range(AGAIN))  # type: ignore[misc]  # as above
        yield Row(
            f"console: first view of {name}",
            first,
            "ms",
            f"{used:.0f} ms of processor time; again: {again:.0f} ms",
            None,
            "≤ 300 ms",
        )


def _updates(console: RunningConsole, sender: Client) -> Iterator[Row]:
    took = []
    with console.events("devices") as lines:
        for n in range(UPDATES):
            time.sleep(0.3)
            device = f"device-{n}"
            began = time.perf_counter()
            sender.publish(TOPICS.status(device), status(1_000 + n), qos=1, retain=True)
            next(one for one in lines if one.startswith("data: {") and device in json.loads(one[5:]))
            took.append(1e3 * (time.perf_counter() - began))
    yield Row(
        "console: a device's status to its row on an open page, the slowest",
        max(took),
        "ms",
        f"median {statistics.median(took):.0f} ms of {UPDATES}",
        None,
        "≤ 1,000 ms",
    )


def _memory(console: RunningConsole) -> Iterator[Row]:
    done = subprocess.run([sys.executable, "-c", IMPORTED], check=True, capture_output=True, text=True)
    imported, own = float(done.stdout), console.resident_mb()
    yield Row(
        "console: memory after all of these, above importing the calibrator",
        own - imported,
        "MB",
        f"{own:.0f} MB, and {imported:.0f} MB",
        None,
        "≤ 60 MB",
    )


def _beside() -> Iterator[Row]:
    """Alternates, so that whatever else the machine does meets both."""
    with tempfile.TemporaryDirectory(prefix="hushmq-console-") as name, Steady(Path(name)) as steady:
        steady.send(DEVICES, rate=500.0, seconds=DEVICES / 500)  # every device is admitted
        with (
            running_console(
                Path(name) / "console",
                broker=f"mqtt://127.0.0.1:{steady.port}",
                cohort=steady.cohort,
                database=steady.database,
                ops=steady.ops,
                calibrator=steady.calibrator,
            ) as console,
            visited(console, ("/", "/devices"), 1.0) as away,
        ):
            taken: dict[bool, list[float]] = {False: [], True: []}
            for turn in range(2 * PAIRS):
                stopped = turn % 4 in {0, 3}
                (away.set if stopped else away.clear)()
                time.sleep(1.0)  # the view that may be under way ends
                os.kill(console.pid, signal.SIGSTOP if stopped else signal.SIGCONT)
                spent = steady.send(DEVICES, rate=RATE, seconds=STRETCH_S)
                taken[stopped].append(1e3 * spent.ours / spent.messages)
            os.kill(console.pid, signal.SIGCONT)
    without, beside = statistics.median(taken[True]), statistics.median(taken[False])
    yield Row(
        "console: the calibrator's processor time for a message, more beside it",
        100 * (beside / without - 1),
        "%",
        f"{beside:.4f} ms beside it, {without:.4f} ms without (medians of {PAIRS})",
        None,
        "< 2 %",
    )
