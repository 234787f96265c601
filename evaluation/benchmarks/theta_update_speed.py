"""A theta update: drawing the statistics, fitting every chain and narrowing Θ, with more and more devices.

Windows are closed as the calibrator does it; timed is what learning does in the window of the first theta update,
within its transaction. States are drawn from chains that differ from device to device, through the noise of the
setting. Times are processor seconds, the least of two rounds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from sqlalchemy import Connection, Engine, insert, select

from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.calibrator.learning.learn_window import ThetaUpdate, learn_window
from hushmq.calibrator.learning.update_schedule import FIRST_UPDATE
from hushmq.calibrator.models.chain_model import AnyModel
from hushmq.calibrator.models.choose_model import read_noise
from hushmq.calibrator.models.sufficient_statistics import ExactStatistics
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.windows import close_window
from hushmq.evaluation.benchmarks.benchmark_cohort import TOPICS, temporary_cohort
from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.device_settings_speed import STREAM, four_states, two_states
from hushmq.evaluation.benchmarks.growth import growth_row
from hushmq.evaluation.estimation.sanitized_categorical import sanitized

SIZES = (250, 500, 1_000)
BEGIN = 1_800_000_000 // 3600 * 3600
"""The first tick of the first window."""


def run() -> Iterator[Row]:
    """Two states, then four."""
    for name, stream, aim in (
        ("two states", two_states("informed"), 100),
        ("four states", four_states(), 400),
    ):
        took = {devices: min(seconds(stream, devices) for _ in range(2)) for devices in SIZES}
        most = max(SIZES)
        yield Row(
            f"theta update of {most:,} devices, {name}",
            1000 * took[most],
            "ms",
            f"{min(SIZES):,} devices ({1000 * took[min(SIZES)]:.0f} ms)",
            took[most] / took[min(SIZES)],
            f"≤ {aim} ms",
        )
        yield growth_row(f"theta update, {name}", took, aim="linear: ≤ 1.1")


def seconds(stream: StreamPolicy, devices: int) -> float:
    """Processor time of learning in the window of the first theta update."""
    ticks = next(iter(stream.windows.values())).ticks
    now = [float(BEGIN)]
    policy = Policy(version=1, cohort=TOPICS.cohort, streams={STREAM: stream})
    with temporary_cohort(policy, clock=lambda: now[0]) as (cohort, engine), _timed() as took:
        cohort.calibrate()
        _fill(engine, devices, ticks)
        for number in range(FIRST_UPDATE):
            now[0] = float(BEGIN + (number + 1) * ticks + 2)
            cohort.close_due()
    outcome, last = took[-1]
    if len(took) != FIRST_UPDATE or outcome != "updated":
        raise RuntimeError(f"Θ was to be updated in window {FIRST_UPDATE}: {took}")
    return last


@contextmanager
def _timed() -> Iterator[list[tuple[str, float]]]:
    """What learning from each window did and took, for as long as this lasts."""
    found: list[tuple[str, float]] = []

    def timed(
        db: Connection, stream: str, model: AnyModel, window: Iterable[ExactStatistics], *, tilt: int
    ) -> ThetaUpdate:
        window = list(window)
        began = time.process_time()
        update = learn_window(db, stream, model, window, tilt=tilt)
        found.append((update.outcome, time.process_time() - began))
        return update

    with patch.object(close_window, "learn_window", timed):
        yield found


def _fill(engine: Engine, devices: int, ticks: int) -> None:
    """States of all windows for every device, all on the roster, sanitized with the cohort's setting."""
    rng = np.random.default_rng(devices)
    names = [f"device-{n}" for n in range(devices)]
    with engine.begin() as db:
        emission = np.array(read_noise(db.execute(select(store.setting.c.noise)).scalars().one()).laws)
        k = len(emission)
        leave = rng.uniform(0.24, 0.32, size=(devices, 1, 1))
        P = leave / (k - 1) * np.ones((k, k)) + (1 - leave - leave / (k - 1)) * np.eye(k)
        states = sanitized(P, emission, ticks=FIRST_UPDATE * ticks, rng=rng)
        db.execute(
            insert(store.roster),
            [{"stream": STREAM, "device": one, "since": BEGIN, "admitted": 0} for one in names],
        )
        for number in range(FIRST_UPDATE):
            first = BEGIN + number * ticks
            part = states[:, number * ticks : (number + 1) * ticks]
            rows = [
                {
                    "device": name,
                    "stream": STREAM,
                    "first": first,
                    "last": first + ticks - 1,
                    "noise": 1,
                    "states": row.tobytes(),
                }
                for name, row in zip(names, part, strict=True)
            ]
            db.execute(insert(store.batch), rows)
