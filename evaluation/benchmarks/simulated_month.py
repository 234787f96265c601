"""A simulated month of a calibrator: its memory and its tables do not grow with history.

Twenty devices, a tick every ten seconds, a batch an hour, hourly and daily windows for the cohort and for each device.
The clock is simulated; database, ledger, learning and settings are real. Memory is the process's, after three days and
after thirty; rows are the most there were in the first three days and in the last three. The ledger and the releases it
stands for are append-only and grow, on disk, with every window. So do settings, each with the ticks it was used for,
but not with time: there are as many as were worth making.
"""

from __future__ import annotations

import gc
import random
import time
from pathlib import Path

from sqlalchemy import func, select

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
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.store import tables as store
from hushmq.evaluation.benchmarks.benchmark_cohort import TOPICS, temporary_cohort
from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

DEVICES, PERIOD_S, HOUR_S = 20, 10, 3600
EARLY_DAYS, DAYS = 3, 30
TICKS = HOUR_S // PERIOD_S
THETA = BinaryTheta(0.1, 0.45, 0.1, 0.45)
STREAM = "motion"
BEGIN = 1_800_000_000
GROWING = {"ledger", "release"}
OF_SETTINGS = {"setting", "extent"}


class SimulatedClock:
    """Seconds since the epoch."""

    def __init__(self) -> None:
        self.now = float(BEGIN)

    def __call__(self) -> float:
        return self.now


def run() -> list[Row]:
    clock, began = SimulatedClock(), time.process_time()
    with temporary_cohort(_policy(), clock=clock, grace_s=60.0) as (cohort, _):
        devices = [_Device(f"device-{number}") for number in range(DEVICES)]
        rows = []
        early = _megabytes()
        for hour in range(DAYS * 24):
            versions = _followed(cohort)
            clock.now += HOUR_S
            cohort.receive([one.hour(hour, versions) for one in devices])
            clock.now += 61
            cohort.close_due()
            clock.now -= 61
            cohort.ledger_states()
            cohort.mark_sent(cohort.unsent())
            rows.append(_rows(cohort))
            if hour == EARLY_DAYS * 24 - 1:
                early = _megabytes()
        late, took = _megabytes(), time.process_time() - began
    against = f"after {EARLY_DAYS} days"
    first, last = rows[: EARLY_DAYS * 24], rows[-EARLY_DAYS * 24 :]
    before, kept = (max(_of(one, set(one) - GROWING - OF_SETTINGS) for one in some) for some in (first, last))
    settings_before, settings = (some[-1]["setting"] for some in (first, last))
    entries_before, entries = (some[-1]["ledger"] for some in (first, last))
    return [
        Row(
            f"calibrator: memory after {DAYS} simulated days",
            late,
            "MB",
            against,
            late / early,
            aim="flat: 1",
        ),
        Row(
            "rows kept, all but ledger, releases and settings",
            kept,
            "rows",
            f"in the first {EARLY_DAYS} days",
            kept / before,
            "flat: 1",
        ),
        Row("settings issued", settings, "rows", against, settings / settings_before),
        Row("entries of the ledger, on disk", entries, "rows", against, entries / entries_before),
        Row("processor time for the whole month", took, "s"),
    ]


def _policy() -> Policy:
    stream = StreamPolicy(
        states=("still", "moving"),
        period_ms=PERIOD_S * 1000,
        discretiser=Threshold(at=1.0),
        theta=Assumption(start=theta_message(THETA), floor=theta_message(BinaryTheta(0.25, 0.3, 0.25, 0.3))),
        epsilon=Audiences(operator=4.0, public=2.0),
        windows={
            "hour": Window(ticks=TICKS, scopes=("cohort", "device")),
            "day": Window(ticks=24 * TICKS, scopes=("cohort", "device")),
        },
    )
    return Policy(version=1, cohort="bench", streams={STREAM: stream})


def _followed(cohort: Cohort) -> dict[str, tuple[int, float, float]]:
    """By device, and for all others under the empty name: version and noise to use."""
    found = {}
    for name, setting in cohort.calibrate().items():
        if name == STREAM:
            found[""] = setting.message
    for device, own in cohort.calibrate_devices().in_force.get(STREAM, {}).items():
        if own.message.version > found[""].version:
            found[device] = own.message
    return {
        device: (message.version, *_probabilities(message.noise.model_dump()))
        for device, message in found.items()
    }


def _probabilities(noise: dict[str, float]) -> tuple[float, float]:
    return noise["rho0"], noise["rho1"]


class _Device:
    """A simulated device: its chain, perturbed with the noise in force."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._rng = random.Random(name)
        self._q, self._r = self._rng.uniform(0.2, 0.35), self._rng.uniform(0.2, 0.35)
        self._state = 0

    def hour(self, hour: int, versions: dict[str, tuple[int, float, float]]) -> Arrived:
        version, rho0, rho1 = versions.get(self.name, versions[""])
        sent = bytearray()
        for _ in range(TICKS):
            self._state ^= self._rng.random() < (self._r if self._state else self._q)
            sent.append(self._state ^ (self._rng.random() < (rho1 if self._state else rho0)))
        first = BEGIN // PERIOD_S + hour * TICKS
        batch = Batch(
            first=first,
            after=first - 1 if hour else None,
            count=TICKS,
            states=pack(bytes(sent)),
            noise=version,
        )
        return Arrived(TOPICS.batch(self.name, STREAM), encode(batch))


def _megabytes() -> float:
    """Resident."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * 4096 / 1e6


def _rows(cohort: Cohort) -> dict[str, int]:
    """By table."""
    with cohort._engine.begin() as db:
        return {
            table.name: int(db.execute(select(func.count()).select_from(table)).scalar_one())
            for table in store.metadata.sorted_tables
        }


def _of(rows: dict[str, int], tables: set[str]) -> int:
    return sum(rows[name] for name in tables)
