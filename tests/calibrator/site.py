"""A cohort for the calibrator's tests: keys, a policy, devices that send what they are told, a clock set by hand."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, insert

from hushmq.broker.contract.messages import Batch, Seen, encode
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
from hushmq.broker.service.log import logger
from hushmq.calibrator.calibrator_config import DevicesSection, RosterSection
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import open_store, sqlite_url
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.protocols import Noise

OPS, CALIBRATOR, STRANGER = PrivateKey(b"o" * 32), PrivateKey(b"c" * 32), PrivateKey(b"s" * 32)
TOPICS = Topics("test")
STREAM = "motion"
WIDE = BinaryTheta(0.15, 0.45, 0.15, 0.45)
NARROW = BinaryTheta(0.25, 0.30, 0.30, 0.35)
EVERYBODY = RosterSection(admit_least=10_000)
"""All devices are admitted with their first batch."""
START = 1_000_000
"""The tick at which the tests' time begins; a tick is a second."""


def wait_until(condition: Callable[[], Any], timeout: float = 90.0) -> None:
    """Wait for a condition, and fail loudly when it does not come.

    NATS delivers what was not acknowledged before a reconnect again after half a minute.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come about in time"
        time.sleep(0.01)


def stream_policy(**changes: Any) -> StreamPolicy:
    fields: dict[str, Any] = {
        "states": ("still", "moving"),
        "period_ms": 1000,
        "discretiser": Threshold(at=75.0),
        "theta": Assumption(start=theta_message(WIDE), floor=theta_message(NARROW)),
        "adversary": "prior",
        "epsilon": Audiences(operator=4.0, public=1.0),
        "windows": {"short": Window(ticks=20)},
    }
    return StreamPolicy(**(fields | changes))


def policy(version: int = 1, *, cohort: str = "test", **changes: Any) -> Policy:
    return Policy(version=version, cohort=cohort, streams={STREAM: stream_policy(**changes)})


def signed(message: Policy, key: PrivateKey = OPS) -> bytes:
    return encode(key.sign(message))


def batch(first: int, states: Sequence[int], *, after: int | None = None, noise: int = 1) -> bytes:
    return encode(Batch(first=first, after=after, count=len(states), states=pack(states), noise=noise))


def from_device(
    device: str, first: int, states: Sequence[int], *, after: int | None = None, noise: int = 1
) -> Arrived:
    return Arrived(TOPICS.batch(device, STREAM), batch(first, states, after=after, noise=noise))


def states(count: int, seed: int = 0) -> bytes:
    return bytes(random.Random(seed).choices((0, 1), k=count))


@dataclass(slots=True)
class Clock:
    """Seconds since the epoch, moved by the test."""

    tick: float = START

    def __call__(self) -> float:
        return self.tick


@dataclass(slots=True)
class Desk:
    """A cohort at hand: its database, its clock, its log."""

    cohort: Cohort
    engine: Engine
    clock: Clock
    log: io.StringIO = field(repr=False)

    def adopt(self, message: Policy | None = None) -> None:
        """Follow a policy and make the settings for it."""
        self.cohort.receive([Arrived(TOPICS.policy, signed(message or policy()))])
        self.cohort.calibrate()

    def window(self, number: int = 0, *, devices: int = 3, ticks: int = 20, noise: int = 1) -> None:
        """Every device sends one window of states, and the clock moves past its end and the grace."""
        first = START + number * ticks
        self.clock.tick = first + ticks + 1
        self.cohort.receive(
            [
                from_device(f"d{n}", first, states(ticks, seed=100 * number + n), noise=noise)
                for n in range(devices)
            ]
        )

    def seen(self, device: str) -> Seen:
        return self.cohort.seen(device)


@contextmanager
def desk(
    url: str,
    *,
    clock: Clock | None = None,
    grace_s: float = 1.0,
    mark_path: Path | None = None,
    devices: DevicesSection | None = None,
    roster: RosterSection = EVERYBODY,
    key: PrivateKey = CALIBRATOR,
    ops: Sequence[PrivateKey] = (OPS,),
    timer: Callable[[], float] = time.monotonic,
) -> Iterator[Desk]:
    """Open the cohort's database as the daemon does."""
    clock = clock or Clock()
    log = io.StringIO()
    engine = open_store(url)
    try:
        cohort = Cohort(
            engine,
            cohort="test",
            key=key,
            ops_keys=[one.public for one in ops],
            grace_s=grace_s,
            clock=clock,
            log=logger("debug", "json", log),
            mark_path=mark_path,
            devices=devices,
            roster=roster,
            timer=timer,
        )
        yield Desk(cohort, engine, clock, log)
    finally:
        engine.dispose()


def sqlite(folder: Path) -> str:
    return sqlite_url(folder / "ledger.db")


@contextmanager
def ledger_with(folder: Path, noises: Mapping[tuple[str, int], Noise]) -> Iterator[Connection]:
    """A new database that holds these noises, by stream and version."""
    engine = open_store(sqlite_url(folder / "ledger.db"))
    with engine.begin() as db:
        for (stream, version), noise in noises.items():
            row = {
                "stream": stream,
                "version": version,
                "policy": 1,
                "noise": noise.as_json(),
                "payload": b"",
            }
            db.execute(insert(store.setting).values(**row))
        yield db
    engine.dispose()
