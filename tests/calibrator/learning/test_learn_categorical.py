"""Learning about more than two states: Θ narrows at updates, widens on contradiction, and keeps no history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection, func, select

from hushmq.calibrator.learning.learn_window import learn_window
from hushmq.calibrator.learning.learning_progress import read_progress
from hushmq.calibrator.learning.stream_theta import cohort_theta, device_thetas, misfit_of_stream
from hushmq.calibrator.learning.update_schedule import FIRST_UPDATE
from hushmq.calibrator.models.categorical.categorical_moments import described, transitions
from hushmq.calibrator.models.categorical.categorical_region import point
from hushmq.calibrator.models.categorical.categorical_statistics import CategoricalSums
from hushmq.calibrator.models.categorical_model import CATEGORICAL
from hushmq.calibrator.models.sufficient_statistics import ExactStatistics
from hushmq.calibrator.store import tables as store
from hushmq.evaluation.estimation.categorical_coverage import THREE
from hushmq.evaluation.estimation.sanitized_categorical import sanitized
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from tests.calibrator.site import ledger_with

STREAM = "activity"
EMISSIONS = {1: CategoricalNoise.response(3, 2.0), 2: CategoricalNoise.response(3, 3.0)}
TICKS, TILT = 3000, 1_750_000_000


def around(share: float, P: np.ndarray = THREE) -> CategoricalTheta:
    """Chains whose transitions to other states differ from P's by at most this share."""
    away = ~np.eye(3, dtype=bool)
    low = np.where(away, P * (1 - share), 1 - (1 - P) * (1 + share)).clip(0, 1)
    high = np.where(away, P * (1 + share), 1 - (1 - P) * (1 - share)).clip(0, 1)
    return CategoricalTheta.of(
        TransitionIntervals(*(tuple(map(tuple, ends.tolist())) for ends in (low, high)))
    )


START, FLOOR = around(0.9), around(0.02)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Connection]:
    with ledger_with(tmp_path, {(STREAM, version): one for version, one in EMISSIONS.items()}) as connection:
        yield connection


class Devices:
    """Simulated devices that go on for ever, a window at a time."""

    def __init__(self, seed: int, *, count: int = 8, P: np.ndarray = THREE) -> None:
        self.rng = np.random.default_rng(seed)
        self.count, self.P = count, P

    def window(self, version: int = 1) -> list[ExactStatistics]:
        states = sanitized(
            np.repeat(self.P[None], self.count, axis=0),
            np.array(EMISSIONS[version].rows),
            ticks=TICKS,
            rng=self.rng,
        )
        found = []
        for number, row in enumerate(states):
            sums = CategoricalSums(3)
            sums.add(row.tobytes())
            found.append(ExactStatistics(f"d{number}", version, sums.ticks, sums.starts, sums.groups))
        return found


def take(db: Connection, devices: Devices, windows: int, version: int = 1) -> None:
    for _ in range(windows):
        learn_window(db, STREAM, CATEGORICAL, devices.window(version), tilt=TILT)


def theta(db: Connection) -> CategoricalTheta:
    return cohort_theta(db, STREAM, CATEGORICAL, start=START, floor=FLOOR)


def size(chains: CategoricalTheta) -> float:
    return float(sum(np.subtract(each.high, each.low).sum() for each in (chains.forward, chains.backward)))


@pytest.mark.slow
def test_theta_narrows_at_updates_and_only_there(db: Connection) -> None:
    """Before the first update Θ is the start; each update narrows it, and it holds the truth."""
    devices = Devices(1)
    take(db, devices, FIRST_UPDATE - 1)
    assert theta(db) == START.hull(FLOOR)
    take(db, devices, 1)
    first = theta(db)
    assert START.contains(first)
    assert size(first) < size(START) / 3
    take(db, devices, FIRST_UPDATE - 1)
    assert theta(db) == first
    take(db, devices, 1, version=2)
    second = theta(db)
    assert first.contains(second)
    assert second.contains(point(described(THREE), 3))
    assert second.contains(FLOOR)
    assert read_progress(db, STREAM).contradictions == 0
    own = device_thetas(db, STREAM, CATEGORICAL, start=START, floor=FLOOR)
    assert set(own) == {f"d{n}" for n in range(8)}
    assert all(one.contains(point(described(THREE), 3)) for one in own.values())


@pytest.mark.slow
def test_the_tables_do_not_grow(db: Connection) -> None:
    """Whatever the age of the stream, at most two rows per device and noise version are kept."""
    devices = Devices(2, count=3)
    take(db, devices, 4 * FIRST_UPDATE + 3)
    rows = db.execute(select(func.count()).select_from(store.statistic)).scalar_one()
    assert rows <= 2 * 3
    assert misfit_of_stream(db, STREAM, CATEGORICAL) is not None


@pytest.mark.slow
def test_contradiction_widens_at_once(db: Connection) -> None:
    """When the data has clearly changed, what was learned is dropped, and Θ is the policy's start again."""
    take(db, Devices(3), FIRST_UPDATE)
    assert size(theta(db)) < size(START) / 3
    slow = transitions(described(THREE) - 1.6, 3)
    changed = Devices(4, P=slow)
    for _ in range(3):
        take(db, changed, 1)
        if read_progress(db, STREAM).contradictions:
            break
    assert read_progress(db, STREAM).contradictions == 1
    assert theta(db).contains(START)


@pytest.mark.slow
def test_evidence_outside_the_start_widens_it(db: Connection) -> None:
    """Θ then holds both what ops assumed and what was found."""
    take(db, Devices(5, P=transitions(described(THREE) - 2.5, 3)), FIRST_UPDATE)
    found = cohort_theta(db, STREAM, CATEGORICAL, start=around(0.3), floor=FLOOR)
    assert found.contains(around(0.3))
    assert found.forward.high[0][0] > around(0.3).forward.high[0][0]


def test_misfit_is_covered_unless_it_is_only_reported(db: Connection) -> None:
    """A persistent share makes Θ reach to slower chains, by default."""
    take(db, Devices(6), FIRST_UPDATE)
    db.execute(store.learning.update().values(persistent_shares="[0, 0, 0.05, 0.05]", undetectable=0))
    covered, reported = (
        theta(db),
        cohort_theta(db, STREAM, CATEGORICAL, start=START, floor=FLOOR, misfit="report"),
    )
    assert covered.contains(reported)
    assert covered.forward.low[0][1] < reported.forward.low[0][1]
    assert covered.forward.high[0][0] > reported.forward.high[0][0]


def test_misfit_is_cut_to_the_start(db: Connection) -> None:
    """What a persistent share makes of the learned Θ widens the start only where it lies outside."""
    take(db, Devices(6), FIRST_UPDATE)
    db.execute(store.learning.update().values(persistent_shares="[0.02, 0, 0, 0]", undetectable=0))
    reported = cohort_theta(db, STREAM, CATEGORICAL, start=START, floor=FLOOR, misfit="report")
    assert reported.contains(cohort_theta(db, STREAM, CATEGORICAL, start=reported, floor=FLOOR))
    db.execute(store.learning.update().values(persistent_shares="[0, 0, 0, 0.9]"))
    beyond = cohort_theta(db, STREAM, CATEGORICAL, start=reported, floor=FLOOR)
    assert beyond.contains(reported)
    assert not reported.contains(beyond)
