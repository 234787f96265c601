"""Learning: Θ narrows at updates, widens on contradiction, always contains the floor, and keeps no history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, func, select

from hushmq.calibrator.learning import update_schedule
from hushmq.calibrator.learning.charged_statistics import fit_since
from hushmq.calibrator.learning.learn_window import ThetaUpdate, learn_window
from hushmq.calibrator.learning.learning_progress import Progress, read_progress, write_progress
from hushmq.calibrator.learning.stream_theta import (
    MOST_UNDETECTABLE,
    cohort_theta,
    device_thetas,
    misfit_of_stream,
)
from hushmq.calibrator.learning.update_schedule import FIRST_UPDATE, block_of, last_update
from hushmq.calibrator.models.binary_model import BINARY
from hushmq.calibrator.models.sufficient_statistics import ExactStatistics
from hushmq.calibrator.store import tables as store
from hushmq.evaluation.estimation.sanitized_binary import counted, sanitized
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.site import ledger_with

STREAM = "motion"
NOISES = {1: BinaryNoise(0.2, 0.25), 2: BinaryNoise(0.1, 0.12)}
START, FLOOR = BinaryTheta(0.05, 0.7, 0.05, 0.7), BinaryTheta(0.24, 0.26, 0.3, 0.32)
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

    def window(self, version: int = 1) -> list[ExactStatistics]:
        q, r = (np.full(self.count, one) for one in self.chain)
        packed = sanitized(q, r, NOISES[version], ticks=TICKS, rng=self.rng)
        return [
            ExactStatistics(f"d{number}", version, sums.ticks, sums.starts, sums.groups)
            for number, sums in enumerate(counted(packed, ticks=TICKS))
        ]


def take(db: Connection, devices: Devices, windows: int, version: int = 1) -> None:
    for _ in range(windows):
        learn_window(db, STREAM, BINARY, devices.window(version), tilt=TILT)


def theta(db: Connection, start: BinaryTheta = START) -> BinaryTheta:
    return cohort_theta(db, STREAM, BINARY, start=start, floor=FLOOR)


def size(box: BinaryTheta) -> float:
    return (box.q_high - box.q_low) * (box.r_high - box.r_low)


def test_updates_double() -> None:
    """Blocks end at theta updates, and each comes after twice the windows of the one before."""
    ends = [windows for windows in range(1, 200) if windows == last_update(windows)]
    assert ends == [FIRST_UPDATE * 2**k for k in range(len(ends))]
    for number, end in enumerate(ends):
        assert (block_of(end), block_of(end + 1)) == (number, number + 1)


def test_theta_narrows_at_updates_and_only_there(db: Connection) -> None:
    """Before the first update Θ is the start; between updates it stays; each narrows it."""
    devices = Devices(1)
    take(db, devices, FIRST_UPDATE - 1)
    assert theta(db) == START
    take(db, devices, 1)
    first = theta(db)
    assert START.contains(first)
    assert size(first) < size(START) / 3
    take(db, devices, FIRST_UPDATE - 1)
    assert theta(db) == first
    take(db, devices, 1, version=2)
    second = theta(db)
    assert first.contains(second)
    assert second.contains(BinaryTheta.point(*CHAIN))
    assert read_progress(db, STREAM).contradictions == 0


@pytest.mark.slow
def test_a_step_says_what_it_did(db: Connection) -> None:
    """Windows are held, tested and used for an update as scheduled; Θ changes with updates alone."""
    devices = Devices(1)
    steps = [learn_window(db, STREAM, BINARY, devices.window(), tilt=TILT) for _ in range(3 * FIRST_UPDATE)]
    held, tested, updated = (ThetaUpdate(one) for one in ("held", "tested", "updated"))
    first = [held, held, held, updated]
    assert steps == [*first, tested, tested, held, updated, tested, tested, held, tested]
    assert [one.changed_theta for one in steps] == [one == updated for one in steps]


def test_too_few_devices_update_nothing(db: Connection) -> None:
    """An update for which there is too little evidence has drawn its statistics, and changes no Θ."""
    devices = Devices(1, count=2)
    steps = [learn_window(db, STREAM, BINARY, devices.window(), tilt=TILT) for _ in range(FIRST_UPDATE)]
    assert [one.outcome for one in steps] == ["held"] * (FIRST_UPDATE - 1) + ["tested"]
    assert not steps[-1].changed_theta


def test_a_step_names_a_restart_and_the_devices_it_reset(db: Connection) -> None:
    """All devices that change restart the sequence; one that changes is reset alone, and left out."""
    devices, moved = Devices(5), Devices(6, chain=(0.05, 0.06))
    take(db, devices, FIRST_UPDATE)
    one = [moved.window()[0], *devices.window()[1:]]
    step = learn_window(db, STREAM, BINARY, one, tilt=TILT)
    assert (step.outcome, step.reset_devices) == ("tested", frozenset({"d0"}))
    assert step.left_out["d0"].contains(BinaryTheta.point(0.05, 0.06))
    assert len(step.left_out) == 1
    assert step.changed_theta
    assert read_progress(db, STREAM).contradictions == 1
    assert learn_window(db, STREAM, BINARY, moved.window(), tilt=TILT) == ThetaUpdate("restarted")
    assert read_progress(db, STREAM) == Progress(contradictions=2)
    assert theta(db) == START


def test_every_device_has_its_own_theta(db: Connection) -> None:
    """After an update each device has a Θ of its own within the cohort's; an unknown device has none."""
    take(db, Devices(2), FIRST_UPDATE)
    own = device_thetas(db, STREAM, BINARY, start=START, floor=FLOOR)
    assert set(own) == {f"d{number}" for number in range(10)}
    assert all(box.contains(FLOOR) for box in own.values())
    assert all(theta(db).contains(box) for box in own.values())
    assert "nobody" not in own


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_device_has_a_wider_theta_than_the_cohort(db: Connection, seed: int) -> None:
    """A device's own Θ lies within the cohort's, under whose noise it was before; present in the last update or not."""
    devices = Devices(seed)
    take(db, devices, FIRST_UPDATE)
    for windows in (0, FIRST_UPDATE, 2 * FIRST_UPDATE):
        for _ in range(windows):
            learn_window(db, STREAM, BINARY, devices.window()[:-1], tilt=TILT)
        own = device_thetas(db, STREAM, BINARY, start=START, floor=FLOOR)
        assert len(own) == 10
        assert all(theta(db).contains(box) for box in own.values())


def test_theta_never_leaves_the_floor(db: Connection) -> None:
    """Whatever is learned, the floor is part of Θ."""
    take(db, Devices(3, chain=(0.5, 0.6)), FIRST_UPDATE * 2)
    assert theta(db).contains(FLOOR)


def test_data_outside_the_start_widens_it(db: Connection) -> None:
    """Evidence against the policy's start does not leave Θ empty: it holds the start and the evidence."""
    chain = (0.05, 0.08)
    take(db, Devices(4, chain=chain), FIRST_UPDATE)
    start = BinaryTheta(0.2, 0.4, 0.2, 0.4)
    found = cohort_theta(db, STREAM, BINARY, start=start, floor=FLOOR)
    assert found.contains(start)
    assert found.contains(BinaryTheta.point(*chain))


@pytest.mark.slow
def test_drift_widens_at_once(db: Connection) -> None:
    """When the devices change, what was learned is dropped within a few windows, and the new chain is learned."""
    take(db, Devices(5), FIRST_UPDATE * 2)
    assert not theta(db).contains(BinaryTheta.point(0.08, 0.1))
    changed = Devices(6, chain=(0.08, 0.1))
    windows = 0
    while not read_progress(db, STREAM).contradictions:
        take(db, changed, 1)
        windows += 1
        assert windows <= FIRST_UPDATE
    assert theta(db).contains(START)
    assert db.execute(select(store.statistic)).first() is None, "how much of it is older than the change?"
    assert db.execute(select(func.count()).select_from(store.pending)).scalar_one() == 0
    take(db, changed, FIRST_UPDATE)
    assert theta(db).contains(BinaryTheta.point(0.08, 0.1))
    assert read_progress(db, STREAM).contradictions == 1


@pytest.mark.slow
def test_a_change_in_the_middle_of_a_block_leaves_nothing_behind(db: Connection) -> None:
    """Evidence from before and after a change, summed in one block, is not what Θ is learned from next."""
    take(db, Devices(5), FIRST_UPDATE * 3)
    changed = Devices(6, chain=(0.12, 0.15))
    take(db, changed, FIRST_UPDATE)
    assert read_progress(db, STREAM).contradictions == 1
    for _ in range(3 * FIRST_UPDATE):
        take(db, changed, 1)
        assert theta(db).contains(BinaryTheta.point(*changed.chain))
    assert not theta(db).contains(START), "it is learned anew"
    assert read_progress(db, STREAM).contradictions == 1


def window(*devices: Devices) -> list[ExactStatistics]:
    """One window of several kinds of devices, numbered through."""
    found = [one for each in devices for one in each.window()]
    return [replace(one, device=f"d{number}") for number, one in enumerate(found)]


def own(db: Connection) -> dict[str, BinaryTheta]:
    return device_thetas(db, STREAM, BINARY, start=START, floor=FLOOR)


@pytest.mark.slow
def test_a_device_that_changes_is_forgotten_alone(db: Connection) -> None:
    """It is to be left out, with a region that holds its chain, and nothing is held of it; the others keep theirs."""
    devices = Devices(7)
    take(db, devices, FIRST_UPDATE)
    before = own(db)
    odd, rest = Devices(8, count=1, chain=(0.6, 0.55)), Devices(9, count=9)
    step = learn_window(db, STREAM, BINARY, window(odd, rest), tilt=TILT)
    assert step.left_out.keys() == {"d0"}
    assert step.left_out["d0"].contains(BinaryTheta.point(*odd.chain))
    assert (read_progress(db, STREAM).windows, read_progress(db, STREAM).contradictions) == (
        FIRST_UPDATE + 1,
        1,
    )
    assert own(db) == {device: box for device, box in before.items() if device != "d0"}
    for _ in range(FIRST_UPDATE - 1):
        learn_window(db, STREAM, BINARY, window(odd, rest)[1:], tilt=TILT)
    assert "d0" not in own(db)
    assert theta(db).contains(BinaryTheta.point(*CHAIN)), "the cohort's own evidence stands"
    assert read_progress(db, STREAM).contradictions == 1


@pytest.mark.slow
def test_a_change_within_a_mixed_cohort_is_seen(db: Connection) -> None:
    """Devices far from each other may all change and leave the cohort's Θ right: each is then like a newcomer."""
    fast, slow = (0.4, 0.45), (0.12, 0.15)
    for _ in range(FIRST_UPDATE):
        window_ = window(Devices(21, count=5, chain=fast), Devices(22, count=5, chain=slow))
        learn_window(db, STREAM, BINARY, window_, tilt=TILT)
    assert theta(db).contains(BinaryTheta(slow[0], fast[0], slow[1], fast[1]))
    assert own(db)["d0"].q_low > slow[0]
    for _ in range(2):
        window_ = window(Devices(23, count=5, chain=slow), Devices(24, count=5, chain=fast))
        learn_window(db, STREAM, BINARY, window_, tilt=TILT)
    now = own(db)
    for number in range(10):
        box = now.get(f"d{number}", theta(db))
        assert box.contains(BinaryTheta.point(*(slow if number < 5 else fast)))


def test_tests_for_a_change_share_one_error() -> None:
    """All change tests of all blocks together have no more than CHANGE_ERROR."""
    spent = 0.0
    for windows in range(FIRST_UPDATE + 1, FIRST_UPDATE * 2**12 + 1):
        spent += update_schedule.is_change_test(windows) * update_schedule.change_error(block_of(windows))
    assert spent <= update_schedule.CHANGE_ERROR
    assert spent == pytest.approx(update_schedule.CHANGE_ERROR, rel=1e-3)


@pytest.mark.slow
def test_memory_is_flat(db: Connection) -> None:
    """However many windows, at most two blocks of statistics and one learned Θ per device are kept."""
    devices = Devices(9, count=4)
    window = devices.window()
    for number in range(FIRST_UPDATE * 2**5):
        learn_window(db, STREAM, BINARY, window, tilt=TILT)
        rows = db.execute(select(func.count()).select_from(store.statistic)).scalar_one()
        assert rows <= 2 * 4, number
        pending = db.execute(select(func.count()).select_from(store.pending)).scalar_one()
        assert pending in {0, 4}, number
    assert db.execute(select(func.count()).select_from(store.learned_theta)).scalar_one() == 1 + 4
    assert read_progress(db, STREAM).windows == FIRST_UPDATE * 2**5


def test_all_updates_share_one_error() -> None:
    """However long a stream lives, its updates together have no more than the whole error, and no less at the limit."""
    shares = [update_schedule.error_share(block) for block in range(50)]
    assert all(share > 0 for share in shares)
    assert sum(shares) <= 1
    assert sum(shares) == pytest.approx(1)


@pytest.mark.slow
def test_later_updates_ask_more_of_a_misfit(db: Connection) -> None:
    """An excess that the first update would cover is put down to chance by a later one: the error is shared by all."""
    take(db, Devices(12), FIRST_UPDATE * 2)
    found = fit_since(db, STREAM, BINARY, since=0)
    assert found is not None
    critical = [found.misfit(update_schedule.misfit_error(block)).bands[0].critical for block in (0, 1, 5)]
    assert critical == pytest.approx([3.66, 3.84, 4.47], abs=0.01)
    seen = misfit_of_stream(db, STREAM, BINARY)
    assert seen is not None
    assert seen.bands[0].critical == critical[1]


def set_misfit(db: Connection, **changes: Any) -> None:
    """As if the last update had found this misfit."""
    write_progress(db, STREAM, replace(read_progress(db, STREAM), **changes))


def test_reporting_only_leaves_theta_uncovered(db: Connection) -> None:
    """With `report` the misfit is measured and Θ stays; with `cover` Θ reaches further down."""
    take(db, Devices(10), FIRST_UPDATE)
    set_misfit(db, persistent_shares=(0.0, 0.0, 0.05, 0.0), undetectable=0.01)
    covered = theta(db)
    reported = cohort_theta(db, STREAM, BINARY, start=START, floor=FLOOR, misfit="report")
    assert covered.contains(reported)
    assert covered.q_low < 0.75 * reported.q_low
    assert covered.r_low < 0.75 * reported.r_low
    assert misfit_of_stream(db, STREAM, BINARY) is not None


def test_misfit_widens_the_start_only_where_it_contradicts_it(db: Connection) -> None:
    """Chains slowed to cover a misfit are cut to the start like any others; all beyond it, Θ holds both."""
    take(db, Devices(10), FIRST_UPDATE)
    found = cohort_theta(db, STREAM, BINARY, start=START, floor=FLOOR, misfit="report")
    tight = BinaryTheta(0.95 * found.q_low, START.q_high, 0.95 * found.r_low, START.r_high)
    set_misfit(db, persistent_shares=(0.12, 0.0, 0.0, 0.0), undetectable=0.01)
    within = cohort_theta(db, STREAM, BINARY, start=tight, floor=FLOOR)
    assert tight.contains(within)
    assert (within.q_low, within.r_low) == (tight.q_low, tight.r_low)
    set_misfit(db, persistent_shares=(0.0, 0.0, 0.0, 0.9))
    beyond = cohort_theta(db, STREAM, BINARY, start=tight, floor=FLOOR)
    assert beyond.contains(tight)
    assert beyond.q_low < tight.q_low / 10


def test_nothing_is_narrowed_while_a_misfit_could_be_undetected(db: Connection) -> None:
    """Θ stays the start, and still widens, until the evidence would show a correlation that matters over long lags."""
    take(db, Devices(10), FIRST_UPDATE)
    set_misfit(db, undetectable=1.01 * MOST_UNDETECTABLE)
    assert theta(db) == START
    assert device_thetas(db, STREAM, BINARY, start=START, floor=FLOOR)["d0"] == START
    narrow = cohort_theta(db, STREAM, BINARY, start=START, floor=FLOOR, misfit="report")
    assert narrow != START
    elsewhere = BinaryTheta(0.6, 0.7, 0.6, 0.7)
    assert cohort_theta(db, STREAM, BINARY, start=elsewhere, floor=elsewhere).q_low < narrow.q_high
    set_misfit(db, undetectable=MOST_UNDETECTABLE)
    assert theta(db) == narrow


def test_the_start_is_overruled_only_where_it_is_clearly_excluded(db: Connection) -> None:
    """A region just outside the start leaves its nearest chains; one far from it, also when widened, widens it."""
    take(db, Devices(10), FIRST_UPDATE)
    floor = BinaryTheta.point(0.9, 0.9)
    set_misfit(db, undetectable=0.0)
    found = cohort_theta(
        db, STREAM, BINARY, start=BinaryTheta(0.001, 0.999, 0.001, 0.999), floor=BinaryTheta.point(0.25, 0.31)
    )
    width = found.q_high - found.q_low
    near = BinaryTheta(found.q_high + 0.1 * width, 0.9, 0.01, 0.9)
    assert cohort_theta(db, STREAM, BINARY, start=near, floor=floor).q_low == near.q_low
    far = BinaryTheta(found.q_high + width, 0.9, 0.01, 0.9)
    assert cohort_theta(db, STREAM, BINARY, start=far, floor=floor).q_low == found.q_low


def test_few_devices_learn_nothing(db: Connection) -> None:
    """Two devices leave the start standing."""
    take(db, Devices(11, count=2), FIRST_UPDATE * 2)
    assert theta(db) == START
    assert misfit_of_stream(db, STREAM, BINARY) is None
