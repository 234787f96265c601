"""One draw for several windows: what one state can move in their sum, and that each window is in one draw."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection, event, func, select

from hushmq.calibrator.learning.learn_window import learn_window
from hushmq.calibrator.learning.learning_progress import read_progress
from hushmq.calibrator.learning.pending_statistics import draw_pending, hold_statistics
from hushmq.calibrator.learning.update_schedule import FIRST_UPDATE
from hushmq.calibrator.models import binary_model, categorical_model
from hushmq.calibrator.models.binary.binary_statistics import REACH, BinarySums
from hushmq.calibrator.models.binary_model import BINARY
from hushmq.calibrator.models.categorical.categorical_statistics import (
    MULTIPLES,
    CategoricalSums,
    sensitivity,
)
from hushmq.calibrator.models.categorical_model import CATEGORICAL
from hushmq.calibrator.models.chain_model import AnyModel
from hushmq.calibrator.models.draw_noise import variance
from hushmq.calibrator.models.lag_bands import BANDS
from hushmq.calibrator.models.sufficient_statistics import ExactStatistics
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.calibrator.store import tables as store
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.noise.joint_noise import mean_square
from tests.calibrator.site import desk, ledger_with, sqlite

STREAM = "motion"


MANY = "activity"
"""A stream of three states."""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Connection]:
    with ledger_with(
        tmp_path,
        {(STREAM, 1): BinaryNoise(0.2, 0.25), (MANY, 1): CategoricalNoise.response(3, 2.0)},
    ) as connection:
        yield connection


# -- the theorem, by enumeration ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Learned:
    """A window that was charged `tilt` nano-nats for learning from the ticks first … last."""

    first: int
    last: int
    tilt: int

    @property
    def ticks(self) -> int:
        return self.last - self.first + 1


def counted(states: bytes, k: int) -> ExactStatistics:
    sums: BinarySums | CategoricalSums = BinarySums() if k == 2 else CategoricalSums(k)
    sums.add(states)
    return ExactStatistics("d", 1, sums.ticks, sums.starts, sums.groups)


def levels(off: np.ndarray) -> np.ndarray:
    """Two states: by how many levels sums that are so far apart differ at most (pufferfish/noise/joint_noise.py)."""
    return np.ceil(np.abs(off) / np.array(REACH)).max(axis=1)


def distances(off: np.ndarray) -> np.ndarray:
    """Three states: their L1 distance in units of what one state can move."""
    unit = np.repeat(MULTIPLES, [3, *[9] * len(BANDS)])
    return (np.abs(off) / unit).sum(axis=1) / sensitivity(2)


def worst_share(windows: Sequence[Learned], k: int) -> float:
    """By how much of what it was charged a state can be told from another: over all streams, ticks and changes.

    The noise is made for the least that any window was charged; the first two bands fit into these windows.
    """
    ticks = max(one.last for one in windows) + 1
    streams = np.array(list(itertools.product(range(k), repeat=ticks)), dtype=np.uint8)
    total = np.zeros((1, 1))
    for one in windows:
        places = k ** np.arange(one.ticks)[::-1]
        contents = itertools.product(range(k), repeat=one.ticks)
        table = np.array([np.concatenate(counted(bytes(each), k).groups) for each in contents])
        total = total + table[streams[:, one.first : one.last + 1] @ places]
    numbers = k ** np.arange(ticks)[::-1]
    index = streams @ numbers
    worst = 0.0
    for tick, step in itertools.product(range(ticks), range(1, k)):
        charged = sum(one.tilt for one in windows if one.first <= tick <= one.last)
        other = index + ((streams[:, tick] + step) % k - streams[:, tick].astype(int)) * numbers[tick]
        times = (levels if k == 2 else distances)(total - total[other]).max()
        worst = max(worst, float(times) * min(one.tilt for one in windows) / charged)
    return worst


WHOLE = 9
"""Ticks of the shortest window in which one state can be in all the pairs that the first two bands claim."""
NANOS = 400_000_001


@pytest.mark.parametrize(
    "windows",
    [
        [Learned(0, WHOLE - 1, NANOS)],
        [Learned(0, 8, NANOS), Learned(9, 13, NANOS)],  # of two lengths
        [Learned(0, 8, NANOS), Learned(9, 13, 2 * NANOS)],  # charged differently
        [Learned(0, 8, NANOS), Learned(0, 8, NANOS), Learned(9, 12, NANOS)],
        [Learned(0, 8, NANOS), Learned(4, 12, NANOS)],  # a new policy's windows on ticks of the old one's
    ],
)
def test_a_state_costs_what_its_windows_were_charged(windows: list[Learned]) -> None:
    """A2, one draw: over all streams no state costs more than its windows were charged, and one costs all of it."""
    assert worst_share(windows, 2) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.slow
def test_a_state_of_three_costs_what_its_windows_were_charged() -> None:
    """The same for more states than two."""
    assert worst_share([Learned(0, 8, NANOS), Learned(9, 9, NANOS)], 3) == pytest.approx(1.0, abs=1e-12)


# -- what is pending, and what is drawn from it ------------------------------------------------------------------


@dataclass(slots=True)
class Noiseless:
    """Stands for both mechanisms: adds nothing, and remembers what it was asked for."""

    together: list[tuple[list[int], Sequence[int], int]]
    laplace: list[tuple[list[int], float]]

    def noisy_together(self, counts: Sequence[int], *, reach: Sequence[int], tilt: int) -> list[int]:
        self.together.append((list(counts), reach, tilt))
        return list(counts)

    def noisy(self, counts: Sequence[int], *, scale: float) -> list[int]:
        self.laplace.append((list(counts), scale))
        return list(counts)


@pytest.fixture
def noiseless(monkeypatch: pytest.MonkeyPatch) -> Noiseless:
    mechanism = Noiseless([], [])
    monkeypatch.setattr(binary_model, "noisy_together", mechanism.noisy_together)
    monkeypatch.setattr(categorical_model, "noisy", mechanism.noisy)
    return mechanism


def window(seed: int, devices: int = 4, k: int = 2, ticks: int = 60) -> list[ExactStatistics]:
    rng = np.random.default_rng(seed)
    found = []
    for number in range(devices):
        sums: BinarySums | CategoricalSums = BinarySums() if k == 2 else CategoricalSums(k)
        sums.add(rng.integers(0, k, ticks, dtype=np.uint8).tobytes())
        found.append(ExactStatistics(f"d{number}", 1, sums.ticks, sums.starts, sums.groups))
    return found


@pytest.mark.slow
def test_noise_is_drawn_once_for_each_update_and_change_test(db: Connection, noiseless: Noiseless) -> None:
    """One draw for the first block, then draws 1, 2, 4, … windows after an update and at the next one alone."""
    drawn_at = []
    for number in range(1, 8 * FIRST_UPDATE + 1):
        noiseless.together.clear()
        learn_window(db, STREAM, BINARY, window(number), tilt=NANOS)
        if noiseless.together:
            drawn_at.append(number)
            assert [asked for _, *asked in noiseless.together] == [[REACH, NANOS]] * 4
    assert read_progress(db, STREAM).contradictions == 0
    assert drawn_at == [4, 5, 6, 8, 9, 10, 12, 16, 17, 18, 20, 24, 32]


def test_what_is_learned_from_is_the_sum_of_the_windows_and_one_draw(
    db: Connection, noiseless: Noiseless
) -> None:
    """The block holds the exact sums of its windows, the noise of one draw for each device, and its variance."""
    windows = [window(seed) for seed in range(FIRST_UPDATE)]
    for one in windows:
        learn_window(db, STREAM, BINARY, one, tilt=NANOS)
    exact = sum(np.array([np.concatenate(device.groups) for device in one]) for one in windows)
    assert [counts for counts, _, _ in noiseless.together] == exact.tolist()
    rows = db.execute(select(store.statistic).order_by(store.statistic.c.device)).all()
    assert [np.concatenate(json.loads(row.groups)).tolist() for row in rows] == exact.tolist()
    assert [row.ticks for row in rows] == [60 * FIRST_UPDATE] * 4
    assert [json.loads(row.starts)[3] for row in rows] == [(60 - 40) * FIRST_UPDATE] * 4
    assert [row.variance for row in rows] == [mean_square(REACH, NANOS / NANO)] * 4


def test_more_states_too_have_one_draw(db: Connection, noiseless: Noiseless) -> None:
    """The same for three states: one draw of each group for all devices, at the scale that the tilt pays for."""
    windows = [window(seed, k=3) for seed in range(FIRST_UPDATE)]
    for one in windows:
        learn_window(db, MANY, CATEGORICAL, one, tilt=NANOS)
    scale = sensitivity() * NANO / NANOS
    assert [asked for _, asked in noiseless.laplace] == pytest.approx([scale * one for one in MULTIPLES])
    assert all(asked >= scale * one for (_, asked), one in zip(noiseless.laplace, MULTIPLES, strict=True))
    for place, (counts, _) in enumerate(noiseless.laplace):
        exact = sum(np.array([device.groups[place] for device in one]) for one in windows)
        assert counts == exact.ravel().tolist()
    rows = db.execute(select(store.statistic).order_by(store.statistic.c.device)).all()
    counts = sum(np.array([device.groups[0] for device in one]) for one in windows)
    assert [json.loads(row.groups)[0] for row in rows] == counts.tolist()
    assert [sum(json.loads(row.groups)[4]) for row in rows] == [27 * (60 - 40) * FIRST_UPDATE] * 4
    assert [row.variance for row in rows] == pytest.approx([variance(scale)] * 4)


def test_the_least_tilt_of_a_sum_is_kept(db: Connection, noiseless: Noiseless) -> None:
    """What was charged least decides, for the devices that were in that window and for no other."""
    few, all_ = window(1, devices=2), window(2)
    hold_statistics(db, STREAM, all_, tilt=900)
    hold_statistics(db, STREAM, few, tilt=500)
    hold_statistics(db, STREAM, all_, tilt=800)
    drawn = {one.device: one for one in draw_pending(db, STREAM, BINARY)}
    assert [tilt for _, _, tilt in noiseless.together] == [500, 500, 800, 800]
    assert drawn["d0"].variance == drawn["d1"].variance > drawn["d2"].variance == drawn["d3"].variance
    assert drawn["d0"].groups[0] == [2 * all_[0].groups[0][0] + few[0].groups[0][0]]
    assert drawn["d3"].ticks == 120


@pytest.mark.parametrize(("ticks", "bands"), [(1, 0), (3, 1), (13, 2), (20, 3), (41, 4)])
def test_bands_that_were_not_counted_are_not_paid_for(
    db: Connection, noiseless: Noiseless, ticks: int, bands: int
) -> None:
    """Windows too short for a band have noise for the others only; one longer window in the sum brings it back."""
    hold_statistics(db, STREAM, window(1, ticks=ticks), tilt=900)
    hold_statistics(db, MANY, window(1, k=3, ticks=ticks), tilt=900)
    assert all(one.starts[bands:] == [0] * (4 - bands) for one in draw_pending(db, STREAM, BINARY))
    assert [reach for _, reach, _ in noiseless.together] == [REACH[: bands + 1]] * 4
    draw_pending(db, MANY, CATEGORICAL)
    assert [scale for _, scale in noiseless.laplace] == pytest.approx(
        [sensitivity(bands) * NANO / 900 * one for one in MULTIPLES[: bands + 1]]
    )
    hold_statistics(db, STREAM, window(1, ticks=ticks), tilt=900)
    hold_statistics(db, STREAM, window(1), tilt=900)
    draw_pending(db, STREAM, BINARY)
    assert noiseless.together[-1][1] == REACH


def test_what_was_drawn_is_forgotten(db: Connection) -> None:
    """A second draw finds nothing; another stream's sums stay."""
    hold_statistics(db, STREAM, window(1), tilt=NANOS)
    hold_statistics(db, "other", window(2), tilt=NANOS)
    assert len(draw_pending(db, STREAM, BINARY)) == 4
    assert draw_pending(db, STREAM, BINARY) == []
    assert db.execute(select(func.count()).select_from(store.pending)).scalar_one() == 4


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3])
def test_each_number_has_noise_of_its_own(db: Connection, k: int) -> None:
    """With the real mechanisms no two numbers go together, and their noise is as wide as is stated."""
    model: AnyModel = BINARY if k == 2 else CATEGORICAL
    stream, wide = (STREAM, REACH) if k == 2 else (MANY, MULTIPLES)
    sizes = [1] * 5 if k == 2 else [3, *[9] * 4]
    zero = [[0] * size for size in sizes]
    hold_statistics(
        db, stream, [ExactStatistics(f"d{n}", 1, 60, [1] * 4, zero) for n in range(1500)], tilt=NANOS
    )
    found = draw_pending(db, stream, model)
    drawn = np.array([np.concatenate(one.groups) for one in found])
    assert np.abs(np.corrcoef(drawn.T) - np.eye(sum(sizes))).max() < 0.2
    stated = found[0].variance ** 0.5 * np.repeat(wide, sizes)
    assert drawn.std(axis=0) == pytest.approx(stated, rel=0.15)


def test_sums_are_not_shown() -> None:
    """An exact sum is in no text made of it."""
    assert "31337" not in repr(ExactStatistics("d", 1, 60, [1] * 4, [[31337]] * 5))


def test_nothing_but_learning_reads_what_is_pending(tmp_path: Path) -> None:
    """Settings, accounts and what is published are made without reading pending sums."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        here.cohort.close_due()
        said: list[str] = []
        event.listen(
            here.engine, "before_cursor_execute", lambda _c, _k, statement, *_: said.append(statement)
        )
        here.cohort.calibrate()
        here.cohort.calibrate_devices()
        here.cohort.ledger_states()
        here.cohort.unsent()
        assert len(said) > 4
        assert not [one for one in said if "pending" in one]
        here.window(1)
        here.cohort.close_due()
        assert [one for one in said if "pending" in one]
