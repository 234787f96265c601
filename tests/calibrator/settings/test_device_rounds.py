"""Own settings are made in portions: what arrives is counted between them, and no promise waits for the last."""

from __future__ import annotations

import itertools
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event, select

from hushmq.broker.contract.messages import NoiseSetting, decode
from hushmq.broker.contract.noise_message import binary_noise_of
from hushmq.broker.contract.signature import Signed, verify
from hushmq.calibrator.ledger.audience_timelines import price_public
from hushmq.calibrator.ledger.debits import Debit, public_debits
from hushmq.calibrator.ledger.issued_noise import IssuedNoise
from hushmq.calibrator.ledger.live_accounts import read_accounts
from hushmq.calibrator.ledger.verify_ledger import verify as verify_ledger
from hushmq.calibrator.settings.stored_settings import StoredSetting
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import open_to_read
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss
from tests.calibrator.conftest import Databases
from tests.calibrator.settings.test_device_settings import POLICY, WIDE, believe
from tests.calibrator.site import (
    CALIBRATOR,
    START,
    STREAM,
    Desk,
    desk,
    from_device,
    sqlite,
    states,
    stream_policy,
)
from tests.calibrator.steps import Steps
from tests.child import in_child

DEVICES = 12
PORTION = 0.5
"""Of a timer that is a second later whenever it is read: one device."""


def regions(count: int = DEVICES) -> dict[str, BinaryTheta]:
    """A region for each device, all of them worth a setting."""
    rng = random.Random(5)
    found = {"": WIDE}
    for number in range(count):
        q, r = rng.uniform(0.24, 0.3), rng.uniform(0.24, 0.3)
        found[f"d{number:02}"] = BinaryTheta(q, q + 0.1, r, r + 0.1)
    return found


def portion(here: Desk) -> dict[str, StoredSetting]:
    return here.cohort.calibrate_devices(PORTION).in_force[STREAM]


def all_portions(here: Desk) -> dict[str, StoredSetting]:
    """What the daemon does at turn after turn."""
    here.cohort.calibrate()
    made = portion(here)
    while here.cohort.calibrating:
        made = portion(here)
    return made


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Desk]:
    with desk(sqlite(tmp_path), timer=itertools.count().__next__) as one:
        one.adopt(POLICY)
        believe(one, regions())
        one.cohort.calibrate()
        yield one


def test_what_arrives_is_counted_between_portions(here: Desk) -> None:
    """Each portion is one transaction that makes one setting; a batch that comes between two is counted at once."""
    commits = []
    event.listen(here.engine, "commit", commits.append)
    here.clock.tick = START + 100
    for number in range(DEVICES):
        before = len(commits)
        assert len(portion(here)) == number + 1
        assert len(commits) == before + 1
        here.cohort.receive([from_device("d00", START + number * 5, states(5))])
        assert here.cohort.counted == 5 * (number + 1)
        assert here.cohort.calibrating is (number < DEVICES - 1)
    assert len(portion(here)) == DEVICES
    assert not here.cohort.calibrating


@pytest.mark.slow
def test_portions_make_what_one_go_makes(here: Desk, tmp_path: Path) -> None:
    """The same settings, version for version, whether in portions or at once; then nothing is left to make."""
    slowly = all_portions(here)
    (tmp_path / "twin").mkdir()
    with desk(sqlite(tmp_path / "twin")) as twin:
        twin.adopt(POLICY)
        believe(twin, regions())
        twin.cohort.calibrate()
        at_once = twin.cohort.calibrate_devices().in_force[STREAM]
        assert not twin.cohort.calibrating
    assert {device: one.payload for device, one in slowly.items()} == {
        device: one.payload for device, one in at_once.items()
    }
    assert all_portions(here) == slowly


@pytest.mark.slow
def test_who_needs_more_noise_comes_first(here: Desk) -> None:
    """What was believed of the last device is dropped, and of others it has narrowed: the first setting made is its."""
    before = all_portions(here)
    narrower = {
        device: BinaryTheta(box.q_low + 0.02, box.q_high - 0.02, box.r_low + 0.02, box.r_high - 0.02)
        if device
        else box
        for device, box in regions().items()
    }
    last = f"d{DEVICES - 1:02}"
    del narrower[last]
    believe(here, narrower, looks=2)
    here.cohort.calibrate()
    found = portion(here)
    assert here.cohort.calibrating
    assert [device for device in found if found[device] != before[device]] == [last]
    noise = binary_noise_of(found[last].message.noise)
    assert loss(WIDE, tau0=noise.tau0, tau1=noise.tau1, adversary="prior") <= 4.0


@pytest.mark.slow
def test_whatever_the_stream_who_needs_more_noise_comes_first(tmp_path: Path) -> None:
    """In the middle of one stream's round another stream's device needs more noise: the next portion is for it."""
    one = POLICY.streams[STREAM].model_copy(update={"independent": True})
    both = {STREAM: one, "other": one}
    with desk(sqlite(tmp_path), timer=itertools.count().__next__) as here:
        here.adopt(POLICY.model_copy(update={"streams": both}))
        believe(here, regions(3), stream="other")
        all_portions(here)
        believe(here, regions())
        here.cohort.calibrate()
        for number in range(3):
            assert len(portion(here)) == number + 1
        dropped = regions(3)
        del dropped["d02"]
        believe(here, dropped, stream="other", looks=2)
        before = here.cohort.calibrate(), portion(here)
        assert len(before[1]) == 3
        with here.engine.begin() as db:
            newest = db.execute(select(store.setting).order_by(store.setting.c.version.desc())).all()
        latest = max((row for row in newest if row.stream == "other"), key=lambda row: row.version)
        assert latest.device == "d02"
        assert here.cohort.calibrating
        assert len(all_portions(here)) == DEVICES


@pytest.mark.slow
def test_two_calibrators_on_one_database_make_each_setting_once(databases: Databases) -> None:
    """Both go through the same round in turns: each device gets one setting, and both say the same bytes of it."""
    url = databases.fresh()
    with (
        desk(url, timer=itertools.count().__next__) as one,
        desk(url, timer=itertools.count().__next__) as two,
    ):
        for here in (one, two):
            here.adopt(POLICY)
        believe(one, regions(4))
        for here in (one, two):
            here.cohort.calibrate()
        portion(one)
        portion(two)
        while one.cohort.calibrating or two.cohort.calibrating:
            found = [portion(here) for here in (one, two)]
        assert found[0] == found[1]
        assert sorted(found[0]) == ["d00", "d01", "d02", "d03"]
        with one.engine.begin() as db:
            made = db.execute(select(store.setting.c.device)).scalars().all()
        assert len(made) == 1 + 4


@pytest.mark.slow
def test_every_moment_of_a_round_keeps_both_promises(here: Desk) -> None:
    """Windows and portions in turn: after each, both accounts are within ε, and the books are right."""
    stream = stream_policy(theta=POLICY.streams[STREAM].theta)
    versions = {device: 1 for device in regions() if device}
    made = 0
    for number in range(DEVICES):
        here.clock.tick = START + 20 * (number + 1) + 1
        first = START + 20 * number
        here.cohort.receive(
            [from_device(device, first, states(20, 7), noise=noise) for device, noise in versions.items()]
        )
        found = portion(here)
        made = max(made, len(found))
        versions |= {device: one.message.version for device, one in found.items()}
        # Closing waits while settings are made; here it must not, to see what the middle of a round allows.
        here.cohort._windows.close_due(here.engine)
        with here.engine.begin() as db:
            accounts = read_accounts(db, STREAM, stream, theta=WIDE, device_thetas=regions())
            assert accounts.public_loss() <= 1.0
            assert accounts.operator_loss(db) <= 4.0
            assert all(check.passed for check in verify_ledger(db, STREAM))
    assert here.cohort.released == DEVICES
    assert made == DEVICES


@pytest.mark.slow
def test_a_window_is_closed_for_the_theta_of_a_device_whose_turn_has_not_come(here: Desk) -> None:
    """A device has its own setting, then more is held possible of it than that was made for: before its turn comes a
    window that its states can be in spends less, and its account is within ε.
    """
    stream = here.cohort.policy.streams[STREAM]
    portion(here)
    here.window(devices=3)
    with here.engine.begin() as db:
        before = here.cohort._accounts.open(db, STREAM)
        usual = before.spending("short", "cohort", before.issued.cohort)
    wider = regions() | {"d00": WIDE}
    believe(here, wider, looks=2)
    (closed,) = here.cohort._windows.close_due(here.engine).windows
    assert closed.charge is not None
    with here.engine.begin() as db:
        (debit,) = public_debits(db, STREAM)
        accounts = read_accounts(db, STREAM, stream, theta=WIDE, device_thetas=wider)
        (exposure,) = accounts.exposures.values()
        assert exposure.device == "d00"
        exact = max(
            price_public([Debit(debit.first, debit.last, debit.tilt, noise)], wider["d00"], stream).epsilon
            for noise in exposure.noises
        )
        assert exact <= accounts.public_loss() <= 1.0
        assert accounts.public_loss() == here.cohort._accounts.open(db, STREAM).public_loss()
    assert debit.tilt < 0.95 * usual.tilt
    through = Debit(debit.first, debit.last, usual.tilt, exposure.device_noises[0][1])
    assert price_public([through], wider["d00"], stream).epsilon > 1.0


def test_windows_wait_for_the_end_of_a_round(here: Desk) -> None:
    """What a window may spend depends on own settings: while they are made its stream closes none, and then all."""
    portion(here)
    here.window(devices=2)
    assert here.cohort.calibrating
    assert here.cohort.close_due().windows == ()
    all_portions(here)
    (closed,) = here.cohort.close_due().windows
    assert closed.charge is not None


def test_a_round_without_a_stream_is_over(here: Desk) -> None:
    """A policy that drops the stream, or changes it, in the middle of a round: the round ends, or begins anew."""
    portion(here)
    assert here.cohort.calibrating
    here.adopt(POLICY.model_copy(update={"version": 2}))
    found = all_portions(here)
    assert {one.message.policy for one in found.values()} == {2}
    believe(here, regions(DEVICES + 1), looks=2)
    portion(here)
    assert here.cohort.calibrating
    other = {"other": stream_policy()}
    here.adopt(POLICY.model_copy(update={"version": 3, "streams": other}))
    assert here.cohort.calibrate_devices(PORTION).in_force == {"other": {}}
    assert not here.cohort.calibrating


def test_what_was_issued_is_followed_whatever_the_order(here: Desk) -> None:
    """New settings are added to what is known; one that comes back with an old version is found as well."""
    followed = IssuedNoise(STREAM)
    with here.engine.begin() as db:
        followed.follow(db)
    assert (len(followed.cohort), followed.by_device) == (1, {})
    all_portions(here)
    gone = store.setting.c.version == 4
    with here.engine.begin() as db:
        (row,) = db.execute(select(store.setting).where(gone)).all()
        db.execute(store.setting.delete().where(gone))
        new = followed.follow(db)
        assert (new.of_cohort, len(new.devices)) == (False, DEVICES - 1)
        assert len(followed.by_device) == DEVICES - 1
        db.execute(store.setting.insert().values(**row._asdict()))
        assert followed.follow(db).of_cohort
        assert len(followed.by_device) == DEVICES
        again = IssuedNoise(STREAM)
        again.follow(db)
        assert (followed.cohort, followed.by_device) == (again.cohort, again.by_device)
        assert followed.newest == again.newest


def work(url: str, folder: Path, step: Steps) -> None:
    """Make own settings portion by portion and publish each one made, as the daemon does."""
    with desk(url, timer=itertools.count().__next__) as here:
        step.follow(here.engine)
        world = os.open(folder / "world", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        here.cohort.calibrate()
        while True:
            for one in portion(here).values():
                step()
                os.write(world, one.payload + b"\n")
            if not here.cohort.calibrating:
                break
        step()
        os.close(world)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_at_every_step_of_a_round(databases: Databases, tmp_path: Path) -> None:
    """Killed with -9 at any step: no version stands for two settings, what the world has seen is stored, and after the
    restart every device has exactly one own setting.
    """
    prepared = databases.fresh()
    with desk(prepared) as first:
        first.adopt(POLICY)
        believe(first, regions(3))
    once = tmp_path / "once"
    once.mkdir()
    work(databases.copy(prepared), once, Steps(None))
    for at in itertools.count(1, databases.every):
        url, folder = databases.copy(prepared), tmp_path / f"run-{at}"
        folder.mkdir()
        ended = in_child(lambda url=url, folder=folder, at=at: work(url, folder, Steps(at)))
        assert ended in {0, signal.SIGKILL}, f"step {at} ended with {ended}"
        assert in_child(lambda url=url, folder=folder: work(url, folder, Steps(None))) == 0
        seen = {
            decode(Signed[NoiseSetting], line).message.version: line
            for line in (folder / "world").read_bytes().splitlines()
        }
        lines = set((folder / "world").read_bytes().splitlines())
        assert len(lines) == len(seen), "two settings under one version"
        engine = open_to_read(url)
        with engine.connect() as db:
            rows = db.execute(select(store.setting).where(store.setting.c.device.is_not(None))).all()
        engine.dispose()
        assert sorted(row.device for row in rows) == ["d00", "d01", "d02"]
        assert {row.version: row.payload for row in rows} == seen
        for payload in seen.values():
            verify(NoiseSetting, payload, [CALIBRATOR.public])
        if ended == 0:
            break
    assert at > 20
