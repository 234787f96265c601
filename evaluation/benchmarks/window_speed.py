"""Closing windows: one for the cohort and one for each device, with more and more devices.

Each device has sent its hour, a tick every ten seconds. The window is closed as the calibrator does it, in one
transaction on disk: count, charge, draw, smooth, store. Times are processor seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from sqlalchemy import Engine, insert

from hushmq.broker.contract.policy_message import (
    Assumption,
    Audiences,
    Policy,
    StreamPolicy,
    Threshold,
    Window,
)
from hushmq.broker.contract.theta_message import theta_message
from hushmq.calibrator.store import tables as store
from hushmq.evaluation.benchmarks.benchmark_cohort import TOPICS, temporary_cohort
from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.growth import growth_row
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

STREAM = "motion"
PERIOD_S, TICKS = 10, 360
BEGIN = 1_800_000_000 // (PERIOD_S * TICKS) * TICKS
"""The first tick of the first window."""
WINDOWS = 3
"""The last one is timed: it has earlier ones to be smoothed with, and no look of learning."""
SIZES = (1_000, 3_000, 10_000)
THETA = BinaryTheta(0.1, 0.45, 0.1, 0.45)
AIMS = {"device": 2.0, "cohort": 0.5}
"""Seconds for the largest size."""

Kind = Literal["cohort", "device"]
KINDS: tuple[Kind, ...] = ("device", "cohort")


def run() -> Iterator[Row]:
    for scope in KINDS:
        yield from measured(scope, SIZES)


def measured(scope: Kind, sizes: Sequence[int]) -> list[Row]:
    took = {devices: seconds(scope, devices) for devices in sizes}
    name = (
        f"close a window of two states, {'one release per device' if scope == 'device' else 'cohort scope'}"
    )
    most = max(sizes)
    return [
        Row(
            f"{name}, {most:,} devices",
            took[most],
            "s",
            f"{min(sizes):,} devices ({took[min(sizes)]:.3f} s)",
            took[most] / took[min(sizes)],
            f"≤ {AIMS[scope]:g} s",
        ),
        growth_row(name, took, aim="linear: ≤ 1.1"),
    ]


def seconds(scope: Kind, devices: int) -> float:
    """Processor time of closing the last window."""
    now = [float(BEGIN * PERIOD_S)]
    with temporary_cohort(_policy(scope), clock=lambda: now[0]) as (cohort, engine):
        cohort.calibrate()
        _fill(engine, devices)
        took = 0.0
        for number in range(WINDOWS):
            now[0] = float((BEGIN + (number + 1) * TICKS) * PERIOD_S + 2)
            began = time.process_time()
            closed = cohort.close_due()
            took = time.process_time() - began
            if len(closed.windows) != 1 or closed.windows[0].charge is None:
                raise RuntimeError(f"one window was to be released: {closed.windows}")
    return took


def _fill(engine: Engine, devices: int) -> None:
    """States of all windows for every device, all on the roster."""
    rng = np.random.default_rng(devices)
    with engine.begin() as db:
        names = [f"device-{n}" for n in range(devices)]
        db.execute(
            insert(store.roster),
            [{"stream": STREAM, "device": one, "since": BEGIN, "admitted": 0} for one in names],
        )
        for number in range(WINDOWS):
            first = BEGIN + number * TICKS
            states = rng.integers(0, 2, size=(devices, TICKS), dtype=np.uint8)
            rows = [
                {
                    "device": name,
                    "stream": STREAM,
                    "first": first,
                    "last": first + TICKS - 1,
                    "noise": 1,
                    "states": row.tobytes(),
                }
                for name, row in zip(names, states, strict=True)
            ]
            db.execute(insert(store.batch), rows)


def _policy(scope: Kind) -> Policy:
    stream = StreamPolicy(
        states=("still", "moving"),
        period_ms=PERIOD_S * 1000,
        discretiser=Threshold(at=1.0),
        theta=Assumption(start=theta_message(THETA), floor=theta_message(BinaryTheta(0.25, 0.3, 0.25, 0.3))),
        epsilon=Audiences(operator=4.0, public=2.0),
        windows={"hour": Window(ticks=TICKS, scopes=(scope,))},
    )
    return Policy(version=1, cohort=TOPICS.cohort, streams={STREAM: stream})
