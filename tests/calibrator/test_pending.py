"""One draw for several windows: what one state can move in their sum, and that each window is in one draw."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection, event, func, insert, select

from calibrator import pending, statistics, statistics_k, store
from calibrator.charge import NANO, scale_for
from calibrator.kind import written
from calibrator.learn import FIRST_LOOK, note, progress
from calibrator.learn_k import MORE
from calibrator.learn_two import TWO
from calibrator.noise import variance
from calibrator.pending import Counted, draw, hold
from calibrator.statistics import MULTIPLES, Sums
from calibrator.statistics_k import SumsK
from pufferfish.binary import Noise
from pufferfish.emission import response
from tests.calibrator.site import desk, sqlite

STREAM = "motion"


MANY = "activity"
"""A stream of three states."""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Connection]:
    engine = store.open_store(store.sqlite_url(tmp_path / "ledger.db"))
    with engine.begin() as connection:
        for stream, noise in ((STREAM, Noise(0.2, 0.25)), (MANY, response(3, 2.0))):
            connection.execute(
                insert(store.setting).values(
                    stream=stream, version=1, policy=1, noise=written(noise), payload=b""
                )
            )
        yield connection
    engine.dispose()


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


def counted(states: bytes, k: int) -> Counted:
    sums: Sums | SumsK = Sums() if k == 2 else SumsK(k)
    sums.add(states)
    return Counted("d", 1, sums.ticks, sums.starts, sums.groups)


def scale_of(windows: Sequence[Learned], k: int) -> float:
    """The one that `hold` keeps: the largest of what the windows were charged for."""
    sensitivity = statistics.sensitivity if k == 2 else statistics_k.sensitivity
    return max(scale_for(sensitivity(one.ticks), one.tilt) for one in windows)


def worst_share(windows: Sequence[Learned], k: int) -> float:
    """By how much of what it was charged a state can be told from another: over all streams, ticks and changes.

    The sums of a draw are in units of their noise, so that L1 distance is the logarithm of the largest likelihood
    ratio.
    """
    ticks = max(one.last for one in windows) + 1
    streams = np.array(list(itertools.product(range(k), repeat=ticks)), dtype=np.uint8)
    total = 0.0
    for one in windows:
        places = k ** np.arange(one.ticks)[::-1]
        table = np.array(
            [
                np.concatenate(
                    [
                        np.array(group) / multiple
                        for group, multiple in zip(counted(bytes(each), k).groups, MULTIPLES, strict=True)
                    ]
                )
                for each in itertools.product(range(k), repeat=one.ticks)
            ]
        )
        total = total + table[streams[:, one.first : one.last + 1] @ places]
    total = total / scale_of(windows, k)
    numbers = k ** np.arange(ticks)[::-1]
    index = streams @ numbers
    worst = 0.0
    for tick, step in itertools.product(range(ticks), range(1, k)):
        charged = sum(one.tilt for one in windows if one.first <= tick <= one.last) / NANO
        other = index + ((streams[:, tick] + step) % k - streams[:, tick].astype(int)) * numbers[tick]
        worst = max(worst, float(np.abs(total - total[other]).sum(axis=1).max()) / charged)
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
        [
            Learned(0, 8, NANOS),
            Learned(0, 8, NANOS),
            Learned(9, 12, NANOS),
        ],  # two policies' windows on one tick
    ],
)
def test_a_state_costs_what_its_windows_were_charged(windows: list[Learned]) -> None:
    """A2, one draw: over all streams no state costs more than its windows were charged, and one costs all of it."""
    assert worst_share(windows, 2) == pytest.approx(1.0, abs=1e-12)


def test_windows_that_overlap_are_paid_for_twice() -> None:
    """A new policy's windows may learn from ticks of the old one's: a state then costs no more than both."""
    assert worst_share([Learned(0, 8, NANOS), Learned(4, 12, NANOS)], 2) < 1


def test_the_smallest_tilt_decides() -> None:
    """Of windows charged differently the dearer has more noise than it paid for, never the cheaper less."""
    cheap, dear = Learned(0, 8, 200_000_000), Learned(9, 13, 400_000_000)
    assert worst_share([cheap, dear], 2) == pytest.approx(1.0)
    assert scale_of([cheap, dear], 2) == scale_of([cheap], 2)


def test_a_state_of_three_costs_what_its_windows_were_charged() -> None:
    """The same for more states than two."""
    assert worst_share([Learned(0, 8, NANOS), Learned(9, 9, NANOS)], 3) == pytest.approx(1.0, abs=1e-12)


# -- what waits, and what is drawn from it ------------------------------------------------------------------


@dataclass(slots=True)
class Noiseless:
    """Stands for the mechanism: adds nothing, and remembers what it was asked for."""

    calls: list[tuple[list[int], float]]

    def __call__(self, counts: Sequence[int], *, scale: float) -> list[int]:
        self.calls.append((list(counts), scale))
        return list(counts)


@pytest.fixture
def noiseless(monkeypatch: pytest.MonkeyPatch) -> Noiseless:
    mechanism = Noiseless([])
    monkeypatch.setattr(pending, "noisy", mechanism)
    return mechanism


def window(seed: int, devices: int = 4, k: int = 2, ticks: int = 60) -> list[Counted]:
    rng = np.random.default_rng(seed)
    found = []
    for number in range(devices):
        sums: Sums | SumsK = Sums() if k == 2 else SumsK(k)
        sums.add(rng.integers(0, k, ticks, dtype=np.uint8).tobytes())
        found.append(Counted(f"d{number}", 1, sums.ticks, sums.starts, sums.groups))
    return found


def test_noise_is_drawn_once_for_each_look_and_check(db: Connection, noiseless: Noiseless) -> None:
    """One draw for the first block, then draws 1, 2, 4, … windows after a look and at the next one, and no others."""
    drawn_at = []
    for number in range(1, 8 * FIRST_LOOK + 1):
        noiseless.calls.clear()
        note(db, STREAM, window(number), scale=12.0, learner=TWO)
        if noiseless.calls:
            drawn_at.append(number)
            assert [scale / 12.0 for _, scale in noiseless.calls] == pytest.approx(MULTIPLES)
            assert all(len(counts) == 4 for counts, _ in noiseless.calls)
    assert progress(db, STREAM).contradictions == 0
    assert drawn_at == [4, 5, 6, 8, 9, 10, 12, 16, 17, 18, 20, 24, 32]


@pytest.mark.parametrize("k", [2, 3])
def test_what_is_looked_at_is_the_sum_of_the_windows_and_one_draw(
    db: Connection, noiseless: Noiseless, k: int
) -> None:
    """The block holds the exact sums of its windows, the noise of one draw each for all numbers, and its variance."""
    windows = [window(seed, k=k) for seed in range(FIRST_LOOK)]
    for one in windows:
        if k == 2:
            note(db, STREAM, one, scale=12.0, learner=TWO)
        else:
            note(db, MANY, one, scale=12.0, learner=MORE)
    asked = [np.array(counts).reshape(4, -1) for counts, _ in noiseless.calls]
    for place in range(len(MULTIPLES)):
        exact = sum(np.array([device.groups[place] for device in one]) for one in windows)
        assert (asked[place] == exact).all()
    assert len(asked) == len(MULTIPLES)
    table = store.statistic if k == 2 else store.statistic_k
    rows = db.execute(select(table).order_by(table.c.device)).all()
    assert [row.ticks for row in rows] == [60 * FIRST_LOOK] * 4
    assert [row.variance for row in rows] == [variance(12.0)] * 4
    if k == 2:
        assert [[row.ones] for row in rows] == asked[0].tolist()
        assert [[row.changes_3] for row in rows] == asked[4].tolist()
        assert [row.starts_3 for row in rows] == [(60 - 40) * FIRST_LOOK] * 4


def test_the_widest_scale_of_a_sum_is_kept(db: Connection, noiseless: Noiseless) -> None:
    """What was charged least decides, for the devices that were in that window and for no other."""
    few, all_ = window(1, devices=2), window(2)
    hold(db, STREAM, all_, scale=5.0)
    hold(db, STREAM, few, scale=9.0)
    hold(db, STREAM, all_, scale=6.0)
    drawn = {one.device: one for one in draw(db, STREAM)}
    assert {name: one.variance for name, one in drawn.items()} == {
        "d0": variance(9.0),
        "d1": variance(9.0),
        "d2": variance(6.0),
        "d3": variance(6.0),
    }
    assert drawn["d0"].groups[0] == [2 * all_[0].groups[0][0] + few[0].groups[0][0]]
    assert drawn["d3"].ticks == 120
    assert all(scale >= 6.0 for _, scale in noiseless.calls)


def test_what_was_drawn_is_forgotten(db: Connection) -> None:
    """A second draw finds nothing; another stream's sums stay."""
    hold(db, STREAM, window(1), scale=5.0)
    hold(db, "other", window(2), scale=5.0)
    assert len(draw(db, STREAM)) == 4
    assert draw(db, STREAM) == []
    assert db.execute(select(func.count()).select_from(store.pending)).scalar_one() == 4


def test_each_number_has_noise_of_its_own(db: Connection) -> None:
    """With the real mechanism no two numbers share their noise, and it is as wide as was paid for."""
    hold(db, STREAM, [Counted(f"d{n}", 1, 0, [0] * 4, [[0]] * 5) for n in range(2000)], scale=50.0)
    drawn = np.array([np.concatenate(one.groups) for one in draw(db, STREAM)])
    assert np.abs(np.corrcoef(drawn.T) - np.eye(5)).max() < 0.15
    assert drawn.std(axis=0) == pytest.approx(
        [variance(50.0 * multiple) ** 0.5 for multiple in MULTIPLES], rel=0.15
    )


def test_sums_are_not_shown() -> None:
    """An exact sum is in no text made of it."""
    assert "31337" not in repr(Counted("d", 1, 60, [1] * 4, [[31337]] * 5))


def test_nothing_but_learning_reads_what_waits(tmp_path: Path) -> None:
    """Settings, accounts and what is published are made without a look at the sums that wait."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        here.cohort.close_due()
        said: list[str] = []
        event.listen(
            here.engine, "before_cursor_execute", lambda _c, _k, statement, *_: said.append(statement)
        )
        here.cohort.settings()
        here.cohort.own_settings()
        here.cohort.accounts()
        here.cohort.unsent()
        assert len(said) > 4
        assert not [one for one in said if "pending" in one]
        here.window(1)
        here.cohort.close_due()
        assert [one for one in said if "pending" in one]
