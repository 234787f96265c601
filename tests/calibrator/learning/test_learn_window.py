"""Learning: Θ narrows by looks, widens on contradiction, never leaves the floor, and keeps no history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, func, select

from hushmq.calibrator.learning import learn_window as learn
from hushmq.calibrator.learning.learn_window import (
    FIRST_LOOK,
    block_of,
    last_look,
    learned,
    learned_devices,
    note,
    progress,
)
from hushmq.calibrator.learning.pending_statistics import Counted
from hushmq.calibrator.models.binary_model import TWO
from hushmq.calibrator.store import tables as store
from hushmq.evaluation.estimation.sanitized_binary import counted, sanitized
from hushmq.pufferfish.binary.stream_loss import Box, Noise
from tests.calibrator.site import ledger_with

STREAM = "motion"
NOISES = {1: Noise(0.2, 0.25), 2: Noise(0.1, 0.12)}
START, FLOOR = Box(0.05, 0.7, 0.05, 0.7), Box(0.24, 0.26, 0.3, 0.32)
CHAIN = (0.25, 0.31)
TICKS, TILT = 3000, 600_000_000


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Connection]:
    with ledger_with(tmp_path, {(STREAM, version): one for version, one in NOISES.items()}) as connection:
        yield connection


class Devices:
    """Simulated devices that go on for ever, a window at a time."""

    def __init__(self, seed: int, *, count: int = 10, chain: tuple[float, float] = CHAIN) -> None:
        self.rng = np.random.default_rng(seed)
        self.count = count
        self.chain = chain

    def window(self, version: int = 1) -> list[Counted]:
        q, r = (np.full(self.count, one) for one in self.chain)
        packed = sanitized(q, r, NOISES[version], ticks=TICKS, rng=self.rng)
        return [
            Counted(f"d{number}", version, sums.ticks, sums.starts, sums.groups)
            for number, sums in enumerate(counted(packed, ticks=TICKS))
        ]


def take(db: Connection, devices: Devices, windows: int, version: int = 1) -> None:
    for _ in range(windows):
        note(db, STREAM, devices.window(version), tilt=TILT, learner=TWO)


def theta(db: Connection, start: Box = START) -> Box:
    return learned(db, STREAM, start=start, floor=FLOOR)


def size(box: Box) -> float:
    return (box.q_high - box.q_low) * (box.r_high - box.r_low)


def test_looks_double() -> None:
    """Blocks end at looks, and each look comes after twice the windows of the one before."""
    ends = [windows for windows in range(1, 200) if windows == last_look(windows)]
    assert ends == [FIRST_LOOK * 2**k for k in range(len(ends))]
    for number, end in enumerate(ends):
        assert (block_of(end), block_of(end + 1)) == (number, number + 1)


def test_theta_narrows_at_looks_and_only_there(db: Connection) -> None:
    """Before the first look Θ is the start; between looks it stays; each look leaves it within what it was."""
    devices = Devices(1)
    take(db, devices, FIRST_LOOK - 1)
    assert theta(db) == START
    take(db, devices, 1)
    first = theta(db)
    assert START.contains(first)
    assert size(first) < size(START) / 3
    take(db, devices, FIRST_LOOK - 1)
    assert theta(db) == first
    take(db, devices, 1, version=2)
    second = theta(db)
    assert first.contains(second)
    assert second.contains(Box.point(*CHAIN))
    assert progress(db, STREAM).contradictions == 0


def test_every_device_has_its_own_theta(db: Connection) -> None:
    """After a look each device has a Θ that holds its chain; an unknown device has the cohort's."""
    take(db, Devices(2), FIRST_LOOK)
    own = learned_devices(db, STREAM, start=START, floor=FLOOR)
    assert set(own) == {f"d{number}" for number in range(10)}
    assert all(box.contains(FLOOR) for box in own.values())
    assert learned(db, STREAM, start=START, floor=FLOOR, device="d3") == own["d3"]
    assert learned(db, STREAM, start=START, floor=FLOOR, device="nobody") == theta(db)


@pytest.mark.parametrize("seed", range(4))
def test_no_device_has_a_wider_theta_than_the_cohort(db: Connection, seed: int) -> None:
    """A device's own Θ lies within the cohort's, under whose noise it was before; present in the last look or not."""
    devices = Devices(seed)
    take(db, devices, FIRST_LOOK)
    for windows in (0, FIRST_LOOK, 2 * FIRST_LOOK):
        for _ in range(windows):
            note(db, STREAM, devices.window()[:-1], tilt=TILT, learner=TWO)
        own = learned_devices(db, STREAM, start=START, floor=FLOOR)
        assert len(own) == 10
        assert all(theta(db).contains(box) for box in own.values())


def test_theta_never_leaves_the_floor(db: Connection) -> None:
    """Whatever is learned, the floor is part of Θ."""
    take(db, Devices(3, chain=(0.5, 0.6)), FIRST_LOOK * 2)
    assert theta(db).contains(FLOOR)


def test_data_outside_the_start_widens_it(db: Connection) -> None:
    """Evidence against the policy's start does not leave Θ empty: it holds the start and the evidence."""
    chain = (0.05, 0.08)
    take(db, Devices(4, chain=chain), FIRST_LOOK)
    start = Box(0.2, 0.4, 0.2, 0.4)
    found = learned(db, STREAM, start=start, floor=FLOOR)
    assert found.contains(start)
    assert found.contains(Box.point(*chain))


def test_drift_widens_at_once(db: Connection) -> None:
    """When the devices change, what was believed is dropped within a few windows, and the new chain is learned."""
    take(db, Devices(5), FIRST_LOOK * 2)
    assert not theta(db).contains(Box.point(0.08, 0.1))
    changed = Devices(6, chain=(0.08, 0.1))
    windows = 0
    while not progress(db, STREAM).contradictions:
        take(db, changed, 1)
        windows += 1
        assert windows <= FIRST_LOOK
    assert theta(db).contains(START)
    assert db.execute(select(store.statistic)).first() is None, "how much of it is older than the change?"
    assert db.execute(select(func.count()).select_from(store.pending)).scalar_one() == 0
    take(db, changed, FIRST_LOOK)
    assert theta(db).contains(Box.point(0.08, 0.1))
    assert progress(db, STREAM).contradictions == 1


def test_a_change_in_the_middle_of_a_block_leaves_nothing_behind(db: Connection) -> None:
    """Evidence from before and after a change, summed in one block, is not what Θ is learned from next."""
    take(db, Devices(5), FIRST_LOOK * 3)
    changed = Devices(6, chain=(0.12, 0.15))
    take(db, changed, FIRST_LOOK)
    assert progress(db, STREAM).contradictions == 1
    for _ in range(3 * FIRST_LOOK):
        take(db, changed, 1)
        assert theta(db).contains(Box.point(*changed.chain))
    assert not theta(db).contains(START), "it is learned anew"
    assert progress(db, STREAM).contradictions == 1


def window(*devices: Devices) -> list[Counted]:
    """One window of several kinds of devices, numbered through."""
    found = [one for each in devices for one in each.window()]
    return [replace(one, device=f"d{number}") for number, one in enumerate(found)]


def own(db: Connection) -> dict[str, Box]:
    return learned_devices(db, STREAM, start=START, floor=FLOOR)


def test_a_device_that_changes_is_forgotten_alone(db: Connection) -> None:
    """Unlike the cohort, it has the policy's start, and at the next look a Θ of its own; the others keep theirs."""
    devices = Devices(7)
    take(db, devices, FIRST_LOOK)
    before = own(db)
    odd, rest = Devices(8, count=1, chain=(0.6, 0.55)), Devices(9, count=9)
    note(db, STREAM, window(odd, rest), tilt=TILT, learner=TWO)
    assert (progress(db, STREAM).windows, progress(db, STREAM).contradictions) == (FIRST_LOOK + 1, 1)
    assert own(db) == before | {"d0": START}
    for _ in range(FIRST_LOOK - 1):
        note(db, STREAM, window(odd, rest), tilt=TILT, learner=TWO)
    assert own(db)["d0"].contains(Box.point(*odd.chain))
    assert not own(db)["d0"].contains(START)
    assert theta(db).contains(Box.point(*CHAIN)), "the cohort's own evidence stands"
    assert progress(db, STREAM).contradictions == 1


def test_a_change_within_a_mixed_cohort_is_seen(db: Connection) -> None:
    """Devices far from each other may all change and leave the cohort's Θ right: each is then like a newcomer."""
    fast, slow = (0.4, 0.45), (0.12, 0.15)
    for _ in range(FIRST_LOOK):
        window_ = window(Devices(21, count=5, chain=fast), Devices(22, count=5, chain=slow))
        note(db, STREAM, window_, tilt=TILT, learner=TWO)
    assert theta(db).contains(Box(slow[0], fast[0], slow[1], fast[1]))
    assert own(db)["d0"].q_low > slow[0]
    for _ in range(2):
        window_ = window(Devices(23, count=5, chain=slow), Devices(24, count=5, chain=fast))
        note(db, STREAM, window_, tilt=TILT, learner=TWO)
    now = own(db)
    for number in range(10):
        box = now.get(f"d{number}", theta(db))
        assert box.contains(Box.point(*(slow if number < 5 else fast)))


def test_tests_for_a_change_share_one_error() -> None:
    """All checks and looks of all blocks together have no more than CHANGE_ERROR."""
    spent = 0.0
    for windows in range(FIRST_LOOK + 1, FIRST_LOOK * 2**12 + 1):
        since_look = windows - last_look(windows - 1)
        spent += learn.is_check(since_look) * learn.change_error(block_of(windows))
    assert spent <= learn.CHANGE_ERROR
    assert spent == pytest.approx(learn.CHANGE_ERROR, rel=1e-3)


def test_memory_is_flat(db: Connection) -> None:
    """However many windows, at most two blocks of statistics and one belief per device are kept."""
    devices = Devices(9, count=4)
    window = devices.window()
    for number in range(FIRST_LOOK * 2**5):
        note(db, STREAM, window, tilt=TILT, learner=TWO)
        rows = db.execute(select(func.count()).select_from(store.statistic)).scalar_one()
        assert rows <= 2 * 4, number
        waiting = db.execute(select(func.count()).select_from(store.pending)).scalar_one()
        assert waiting in {0, 4}, number
    assert db.execute(select(func.count()).select_from(store.belief)).scalar_one() == 1 + 4
    assert progress(db, STREAM).windows == FIRST_LOOK * 2**5


def test_all_looks_share_one_error() -> None:
    """However long a stream lives, its looks together have no more than the whole error, and no less at the limit."""
    shares = [learn.share_of_look(block) for block in range(50)]
    assert all(share > 0 for share in shares)
    assert sum(shares) <= 1
    assert sum(shares) == pytest.approx(1)


def test_later_looks_ask_more_of_a_misfit(db: Connection) -> None:
    """An excess that the first look would cover is put down to chance by a later one: the error is shared by all."""
    take(db, Devices(12), FIRST_LOOK * 2)
    found = TWO.found(db, STREAM, since=0)
    assert found is not None
    doubts = [
        found.misfit(learn.MISFIT_ERROR * learn.share_of_look(block)).bands[0].doubt for block in (0, 1, 5)
    ]
    assert doubts == pytest.approx([3.66, 3.84, 4.47], abs=0.01)
    seen = learn.misfit_of(db, STREAM, TWO)
    assert seen is not None
    assert seen.bands[0].doubt == doubts[1]


def tell(db: Connection, **changes: Any) -> None:
    """As if the last look had found this misfit."""
    learn._keep(db, STREAM, replace(progress(db, STREAM), **changes))


def test_reporting_only_leaves_theta_uncovered(db: Connection) -> None:
    """With `report` the misfit is measured and Θ stays; with `cover` Θ reaches further down."""
    take(db, Devices(10), FIRST_LOOK)
    tell(db, lasting=(0.0, 0.0, 0.05, 0.0), hidden=0.01)
    covered = theta(db)
    reported = learned(db, STREAM, start=START, floor=FLOOR, misfit="report")
    assert covered.contains(reported)
    assert covered.q_low < 0.75 * reported.q_low
    assert covered.r_low < 0.75 * reported.r_low
    assert learn.misfit_of(db, STREAM, TWO) is not None


def test_misfit_widens_the_start_only_where_it_contradicts_it(db: Connection) -> None:
    """Chains that what lasts makes slower are cut to the start like any others; all beyond it, Θ holds both."""
    take(db, Devices(10), FIRST_LOOK)
    found = learned(db, STREAM, start=START, floor=FLOOR, misfit="report")
    tight = Box(0.95 * found.q_low, START.q_high, 0.95 * found.r_low, START.r_high)
    tell(db, lasting=(0.12, 0.0, 0.0, 0.0), hidden=0.01)
    within = learned(db, STREAM, start=tight, floor=FLOOR)
    assert tight.contains(within)
    assert (within.q_low, within.r_low) == (tight.q_low, tight.r_low)
    tell(db, lasting=(0.0, 0.0, 0.0, 0.9))
    beyond = learned(db, STREAM, start=tight, floor=FLOOR)
    assert beyond.contains(tight)
    assert beyond.q_low < tight.q_low / 10


def test_nothing_is_narrowed_while_a_misfit_could_be_hidden(db: Connection) -> None:
    """Θ stays the start, and still widens, until the evidence would show a correlation that matters over long lags."""
    take(db, Devices(10), FIRST_LOOK)
    tell(db, hidden=1.01 * learn.HIDDEN)
    assert theta(db) == START
    assert learned_devices(db, STREAM, start=START, floor=FLOOR)["d0"] == START
    narrow = learned(db, STREAM, start=START, floor=FLOOR, misfit="report")
    assert narrow != START
    elsewhere = Box(0.6, 0.7, 0.6, 0.7)
    assert learned(db, STREAM, start=elsewhere, floor=elsewhere).q_low < narrow.q_high
    tell(db, hidden=learn.HIDDEN)
    assert theta(db) == narrow


def test_the_start_is_overruled_only_beyond_doubt(db: Connection) -> None:
    """A region just outside the start leaves its nearest chains; one far from it, also with doubt, widens it."""
    take(db, Devices(10), FIRST_LOOK)
    floor = Box.point(0.9, 0.9)
    tell(db, hidden=0.0)
    found = learned(db, STREAM, start=Box(0.001, 0.999, 0.001, 0.999), floor=Box.point(0.25, 0.31))
    width = found.q_high - found.q_low
    near = Box(found.q_high + 0.1 * width, 0.9, 0.01, 0.9)
    assert learned(db, STREAM, start=near, floor=floor).q_low == near.q_low
    far = Box(found.q_high + width, 0.9, 0.01, 0.9)
    assert learned(db, STREAM, start=far, floor=floor).q_low == found.q_low


def test_few_devices_learn_nothing(db: Connection) -> None:
    """Two devices leave the start standing."""
    take(db, Devices(11, count=2), FIRST_LOOK * 2)
    assert theta(db) == START
    assert learn.misfit_of(db, STREAM, TWO) is None
