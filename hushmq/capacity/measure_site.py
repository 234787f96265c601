"""Measures a site that runs: a broker, a calibrator as a process, and devices that send batches; in processor time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, func, select, text

from hushmq.broker.contract.messages import encode
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.broker_process import BrokerProcess, write_private
from hushmq.broker.service.log import logger
from hushmq.calibrator.store.open_database import plain_engine
from hushmq.calibrator.store.tables import setting, tally
from hushmq.capacity.measured_cohort import COHORT, STREAM, TOPICS, batch, policy
from hushmq.capacity.process_usage import processor_s, resident_bytes

DEVICES = 100
PERIOD_MS = 5
STATES = 10
"""Of a batch: so it is about 50 ms, and a device may send twenty in a second."""
BEHIND_MS = 30_000
"""How long ago the first tick of a device was: none may be in the future."""
MESSAGES = 8_000
RATE = 1_000.0
"""Batches sent in a second."""
FEW_MESSAGES, SLOW_RATE = 500, 100.0
"""The same with few messages in a transaction: what a transaction costs by itself."""
COLLECT_S = 0.5
"""How long the calibrator collects messages for one transaction (`collect_s`)."""
PATIENCE_S = 60.0
APPLICATION = "hushmq-capacity"


@dataclass(frozen=True, slots=True)
class SiteCosts:
    """For each batch and for each transaction, in processor seconds; and memory in bytes."""

    calibrator_s: float
    calibrator_turn_s: float
    server_s: float
    server_turn_s: float
    broker_s: float
    connection_bytes: float
    worker_bytes: float


def measure_site(
    kind: type[BrokerProcess], folder: Path, database: str, progress: Callable[[float], None]
) -> SiteCosts:
    """Send batches from devices that are connected each by itself; RuntimeError where they are not counted in time."""
    names = [f"device-{number:05d}" for number in range(DEVICES)]
    roles = [Identity("ops", "ops", "secret"), Identity("calibrator", "calibrator", "secret")]
    site = Site(COHORT, (*roles, *(Identity("device", name, "secret") for name in names)))
    ops = PrivateKey.generate()
    message = policy(period_ms=PERIOD_MS, ticks=86_400_000 // PERIOD_MS)
    with kind(site, folder / "broker") as broker:
        pid = broker.pid
        if pid is None:
            raise RuntimeError("the broker has no process")
        connections = [_connection(broker, "ops")]
        try:
            _publish(connections[0], TOPICS.policy, encode(ops.sign(message)), retain=True)
            with _calibrator(broker, folder, database, ops) as child:
                engine = plain_engine(database)
                try:
                    _wait(lambda: _has_setting(engine), child)
                    worker_bytes = resident_bytes(child.pid)
                    before = resident_bytes(pid)
                    connections += [_connection(broker, name) for name in names]
                    devices = connections[1:]
                    sender = _Sender(devices, names)
                    sender.send(DEVICES, RATE)  # every device is admitted
                    _wait(lambda: _counted(engine) >= DEVICES, child)
                    connection_bytes = (resident_bytes(pid) - before) / DEVICES
                    calibrator, server = [child.pid], _server_pids(engine)
                    runs: list[_Run] = []
                    for messages, rate in ((MESSAGES, RATE), (FEW_MESSAGES, SLOW_RATE)):
                        counted = _counted(engine)
                        began = [processor_s(one) for one in (calibrator, server, [pid])]
                        for part in range(10):
                            sender.send(messages // 10, rate)
                            progress((len(runs) + (part + 1) / 10) / 2)
                        _wait(lambda: _counted(engine) >= counted + messages, child)  # noqa: B023  # at once
                        after = [processor_s(one) for one in (calibrator, server, [pid])]
                        spent = [now - at for now, at in zip(after, began, strict=True)]
                        runs.append(_Run(messages, messages / rate / COLLECT_S, *spent))
                finally:
                    engine.dispose()
        finally:
            for one in connections:
                one.stop()
    fast, slow = runs
    return SiteCosts(
        *_shared_out(fast, slow, fast.calibrator_s, slow.calibrator_s),
        *_shared_out(fast, slow, fast.server_s, slow.server_s),
        fast.broker_s / fast.messages,
        max(0.0, connection_bytes),
        worker_bytes,
    )


@dataclass(frozen=True, slots=True)
class _Run:
    messages: int
    turns: float
    calibrator_s: float
    server_s: float
    broker_s: float


def _shared_out(fast: _Run, slow: _Run, fast_s: float, slow_s: float) -> tuple[float, float]:
    """Seconds for a message and for a transaction, from two runs with different numbers of messages in one."""
    turn = (slow_s - fast_s * slow.messages / fast.messages) / (
        slow.turns - fast.turns * slow.messages / fast.messages
    )
    turn = min(max(0.0, turn), slow_s / slow.turns)
    return max(0.0, (fast_s - turn * fast.turns) / fast.messages), turn


def _connection(broker: BrokerProcess, name: str) -> Connection:
    subscriptions = [] if name == "ops" else [TOPICS.seen(name)]
    found = Connection(
        endpoints=[broker.endpoint(name)],
        client_id=name,
        subscriptions=subscriptions,
        on_message=lambda *_: None,
        log=logger("critical"),
    )
    found.start()
    if not found.wait_connected(30):
        raise RuntimeError(f"{name} could not connect: {found.last_error}")
    return found


def _publish(connection: Connection, topic: str, payload: bytes, *, retain: bool) -> None:
    done = threading.Event()
    connection.publish(topic, payload, retain=retain, on_acknowledged=done.set)
    if not done.wait(30):
        raise RuntimeError(f"the broker did not take {topic}")


class _Sender:
    """Sends batches, one device after the other."""

    def __init__(self, connections: Sequence[Connection], names: Sequence[str]) -> None:
        self._devices = list(zip(connections, names, strict=True))
        self._room = threading.Semaphore(500)
        self._last: dict[str, int] = {}
        self._turn = 0

    def send(self, count: int, rate: float) -> None:
        """So many batches at this rate."""
        began = time.monotonic()
        for number in range(count):
            ahead = began + number / rate - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
            connection, name = self._devices[self._turn % len(self._devices)]
            self._turn += 1
            before = self._last.get(name)
            first = int(time.time() * 1000 - BEHIND_MS) // PERIOD_MS if before is None else before + 1
            self._last[name] = first + STATES - 1
            if not self._room.acquire(timeout=PATIENCE_S):
                raise RuntimeError("the broker acknowledges nothing")
            connection.publish(
                TOPICS.batch(name, STREAM),
                batch(first, STATES, after=before),
                on_acknowledged=self._room.release,
            )


@contextmanager
def _calibrator(
    broker: BrokerProcess, folder: Path, database: str, ops: PrivateKey
) -> Iterator[subprocess.Popen[bytes]]:
    """A calibrator as it is run, until it is no longer needed."""
    PrivateKey.generate().save(folder / "signing.key")
    write_private(folder / "password", "secret\n")
    write_private(
        folder / "calibrator.toml",
        f"""cohort = "{COHORT}"
database = "{database}"
mark_file = "{folder / "mark"}"
[broker]
urls = ["{broker.endpoint("calibrator").url}"]
username = "calibrator"
password_file = "{folder / "password"}"
[keys]
ops_keys = ["{ops.public}"]
signing_key_file = "{folder / "signing.key"}"
[roster]
admit_least = 1000000
""",
    )
    command = [
        sys.executable,
        "-m",
        "hushmq",
        "calibrator",
        "run",
        "--config",
        str(folder / "calibrator.toml"),
    ]
    with (folder / "calibrator.log").open("wb") as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PGAPPNAME": APPLICATION},
        )
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _wait(condition: Callable[[], bool], child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if child.poll() is not None:
            raise RuntimeError("the calibrator ended while it was measured")
        if time.monotonic() > deadline:
            raise RuntimeError("the calibrator does not keep up with what is measured")
        time.sleep(0.1)


def _has_setting(engine: Engine) -> bool:
    if engine.dialect.name == "sqlite" and not Path(str(engine.url.database)).is_file():
        return False
    with engine.connect() as db:
        if not engine.dialect.has_table(db, "setting"):
            return False
        return db.execute(select(setting.c.version).limit(1)).first() is not None


def _counted(engine: Engine) -> int:
    """Batches counted so far."""
    with engine.connect() as db:
        found = db.execute(select(func.sum(tally.c.counted))).scalar()
    return int(found or 0) // STATES


def _server_pids(engine: Engine) -> list[int]:
    """The processes of PostgreSQL that serve the calibrator; none for SQLite."""
    if engine.dialect.name == "sqlite":
        return []
    with engine.connect() as db:
        found = db.execute(
            text("SELECT pid FROM pg_stat_activity WHERE application_name = :name"), {"name": APPLICATION}
        )
        return [int(pid) for pid in found.scalars()]
