"""Ingest of a fleet for 1, 2 and 4 workers, in processor time, and who waits for whose locks.

The same cohorts on one PostgreSQL and a NATS cluster of three send at the same rate while more and more workers share
them out. Each is a process; where no lock is shared, the processor time of a message stays the same. The pieces are
those of `make fleet`, in the folder of tests: without a checkout, or without PostgreSQL, there is nothing to measure.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hushmq.broker.contract.problem import Problem
from hushmq.evaluation.benchmarks.benchmark_row import Row

if TYPE_CHECKING:
    from tests.calibrator.fleet.big_fleet import BigFleet

COHORTS, DEVICES, BEAT_S, COLLECT_S = 24, 10, 4.0, 1.0
SECONDS = 40.0
SAMPLE_S = 0.02
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@dataclass(slots=True)
class Waits:
    """Samples of how many sessions wait for a lock."""

    samples: int = 0
    waiting: int = 0
    most: int = field(default=0)


def run(
    *,
    cohorts: int = COHORTS,
    devices: int = DEVICES,
    seconds: float = SECONDS,
    workers: Sequence[int] = (1, 2, 4),
) -> Iterator[Row]:
    try:
        from tests.calibrator.fleet.big_fleet import BigFleet, FleetPlan  # noqa: PLC0415  # as the docstring says
    except ModuleNotFoundError:
        yield Row("ingest of a fleet", None, "", "it needs a checkout of the repository")
        return
    plan = FleetPlan(
        cohorts=cohorts,
        devices=devices,
        workers=workers[0],
        beat_s=BEAT_S,
        collect_s=COLLECT_S,
        grace_s=2 * BEAT_S,
        window_s=20,
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hushmq-fleet-")))
        try:
            fleet = BigFleet(plan, folder, stack)
        except Problem as problem:
            yield Row("ingest of a fleet", None, "", str(problem))
            return
        fleet.create()
        fleet.start()
        alone: float | None = None
        for count in workers:
            for number in range(len(fleet.workers), count):
                fleet.start_worker(number)
            measured = _measure(fleet, count, seconds)
            alone = alone or measured.speed
            yield from measured.rows(alone, f"{cohorts} cohorts, {cohorts * devices / BEAT_S:g} messages/s")


@dataclass(frozen=True, slots=True)
class Measured:
    """What some workers took for their messages."""

    workers: int
    messages: int
    cpu_s: float
    p99_s: float
    waits: Waits

    @property
    def speed(self) -> float:
        return self.messages / self.cpu_s

    def rows(self, alone: float, conditions: str) -> Iterator[Row]:
        who = f"{self.workers} worker{'s' * (self.workers > 1)}"
        yield Row(
            f"{who}: messages counted in a second of processor time",
            self.speed,
            "",
            f"one worker ({conditions})",
            self.speed / alone,
        )
        yield Row(
            f"{who}: sessions that wait for a lock, on average",
            self.waits.waiting / self.waits.samples,
            "",
            f"{self.waits.samples:,} samples, at most {self.waits.most} at once",
        )
        yield Row(
            f"{who}: from sample to seen, p99",
            self.p99_s,
            "s",
            f"of which up to {COLLECT_S:g} s messages are collected",
        )


def _measure(fleet: BigFleet, workers: int, seconds: float) -> Measured:
    from tests.calibrator.fleet.big_fleet import cpu_s  # noqa: PLC0415  # as above

    fleet.until(lambda: fleet.balanced(workers), "shares")
    fleet.play(4 * BEAT_S)  # what came again while cohorts moved is over
    fleet.latencies()
    before = sum(cpu_s(child.pid) for child in fleet.workers.values())
    with _watched(fleet) as waits:
        fleet.play(seconds)
    spent = sum(cpu_s(child.pid) for child in fleet.workers.values()) - before
    found = fleet.latencies()
    return Measured(workers, int(found["batches_seen"]), spent, found["p99_s"], waits)


@contextmanager
def _watched(fleet: BigFleet) -> Iterator[Waits]:
    """Ask the server again and again who waits for a lock."""
    waits, done = Waits(), threading.Event()

    def watch() -> None:
        with fleet.server.connect() as db:
            while not done.wait(SAMPLE_S):
                (found,) = db.execute(WAITING).fetchone() or (0,)
                waits.samples += 1
                waits.waiting += int(str(found))
                waits.most = max(waits.most, int(str(found)))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield waits
    finally:
        done.set()
        thread.join()
