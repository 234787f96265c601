"""An old database is found out: it gets no budget back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hushmq.broker.contract.messages import LedgerState, Release, decode, encode
from hushmq.broker.contract.problem import Problem, Reason
from hushmq.broker.contract.theta_message import theta_message
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.ledger.high_water_mark import HighWaterMark, read_marks, unreached_marks, write_marks
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.site import NARROW, START, STRANGER, STREAM, TOPICS, Clock, Desk, desk, policy, sqlite


def fill(here: Desk, *windows: int) -> None:
    for number in windows:
        here.window(number)
        here.cohort.close_due()


def backup(folder: Path) -> None:
    """What a site's backup does: copy the database while nobody has it open."""
    shutil.copy(folder / "ledger.db", folder / "backup.db")


def restore(folder: Path) -> None:
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (folder / name).unlink(missing_ok=True)
    shutil.copy(folder / "backup.db", folder / "ledger.db")


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["backup", "all"])
def test_an_old_backup_gives_no_budget_back(tmp_path: Path, lost: str) -> None:
    """After an old backup, or an empty database, is put in place, nothing is charged or released, and that is said."""
    with desk(sqlite(tmp_path), mark_path=tmp_path / "mark") as here:
        here.adopt()
        fill(here, 0)
    backup(tmp_path)
    with desk(sqlite(tmp_path), mark_path=tmp_path / "mark") as here:
        fill(here, 1)
        before = here.cohort.ledger_states()[0]
    restore(tmp_path)
    if lost == "all":
        (tmp_path / "ledger.db").unlink()
    with desk(sqlite(tmp_path), mark_path=tmp_path / "mark") as here:
        if lost == "all":
            here.adopt()
        assert "restored from an old backup" in here.cohort.stopped[STREAM]
        fill(here, 2)
        assert here.cohort.released == 0
        assert "ledger_behind" in here.log.getvalue()
        (after,) = here.cohort.ledger_states()
        assert after.stopped is not None
        # What is published keeps the mark that the ledger does not reach, so that it still stops an old database.
        assert (after.entries, after.head) == (before.entries, before.head)
        with here.engine.begin() as db:
            assert unreached_marks(db, tmp_path / "mark") == here.cohort.stopped
            assert unreached_marks(db, None) == {}
    assert read_marks(tmp_path / "mark")[STREAM].entries == 2


@pytest.mark.slow
def test_the_newest_backup_goes_on(tmp_path: Path) -> None:
    """A backup that holds every entry is no reason to stop."""
    with desk(sqlite(tmp_path), mark_path=tmp_path / "mark") as here:
        here.adopt()
        fill(here, 0, 1)
    backup(tmp_path)
    restore(tmp_path)
    with desk(sqlite(tmp_path), mark_path=tmp_path / "mark") as here:
        assert here.cohort.stopped == {}
        fill(here, 2)
        assert here.cohort.released == 1


def test_the_broker_remembers_too(tmp_path: Path) -> None:
    """With the file of marks lost as well, the retained, sealed head on the broker tells that the database is old."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        fill(here, 0)
    backup(tmp_path)
    with desk(sqlite(tmp_path)) as here:
        fill(here, 1)
        retained = encode(here.cohort.ledger_states()[0])
    restore(tmp_path)
    with desk(sqlite(tmp_path)) as here:
        here.cohort.receive([Arrived(TOPICS.ledger(STREAM), retained)])
        assert STREAM in here.cohort.stopped


@pytest.mark.slow
def test_another_history_is_found_out(tmp_path: Path) -> None:
    """A ledger with as many entries, but not the same, does not reach the mark."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with desk(sqlite(tmp_path / name), mark_path=tmp_path / f"mark-{name}") as here:
            here.adopt()
            fill(here, 0 if name == "one" else 1)
    with desk(sqlite(tmp_path / "two"), mark_path=tmp_path / "mark-one") as here:
        assert "not the one that was written" in here.cohort.stopped[STREAM]


def test_a_forged_mark_stops_nothing(tmp_path: Path) -> None:
    """A head without our seal, or sealed for another stream, is refused: nobody without the key stops releases."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        fill(here, 0)
        (state,) = here.cohort.ledger_states()
        mark = HighWaterMark(1000, "ab" * 32)
        forged = [
            state.model_copy(update={"entries": 1000}),
            state.model_copy(update={"entries": 1000, "seal": None}),
            state.model_copy(
                update={"entries": 1000, "head": mark.head, "seal": STRANGER.seal(mark.text("test", STREAM))}
            ),
        ]
        here.cohort.receive([Arrived(TOPICS.ledger(STREAM), encode(one)) for one in forged])
        here.cohort.receive([Arrived(TOPICS.ledger("other"), encode(state))])
        assert here.cohort.stopped == {}
        assert here.cohort.rejected == {Reason.BAD_SIGNATURE: 4}


@pytest.mark.slow
def test_our_own_words_come_back(tmp_path: Path) -> None:
    """We hear our own ledger messages again, older ones too: all lie on the chain."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        said: list[LedgerState] = []
        for number in range(3):
            fill(here, number)
            said += here.cohort.ledger_states()
        here.cohort.receive([Arrived(TOPICS.ledger(STREAM), encode(one)) for one in said])
        assert here.cohort.stopped == {}
        assert here.cohort.rejected == {}


def test_a_forgotten_setting_is_known_again(tmp_path: Path) -> None:
    """Our own signed setting on the broker that an old database does not know keeps its version for ever."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        payload = here.cohort.calibrate()[STREAM].payload
    (tmp_path / "ledger.db").unlink()
    with desk(sqlite(tmp_path)) as here:
        here.cohort.receive([Arrived(TOPICS.noise(STREAM), payload)])
        here.adopt(policy(2))
        assert here.cohort.calibrate()[STREAM].message.version == 2


def test_the_file(tmp_path: Path) -> None:
    """Marks are read back as written; a missing file is empty, a broken one is told by name."""
    path = tmp_path / "mark"
    assert read_marks(path) == {}
    write_marks(path, {"a": HighWaterMark(3, "ff"), "b": HighWaterMark()})
    assert read_marks(path) == {"a": HighWaterMark(3, "ff"), "b": HighWaterMark()}
    assert path.stat().st_mode & 0o077 == 0
    path.write_text("[1]")
    with pytest.raises(Problem, match=r"mark_file: .*no file of marks"):
        read_marks(path)
    with pytest.raises(Problem, match="mark_file: "):
        write_marks(tmp_path / "missing" / "mark", {})


def test_a_wider_theta_stops_releases_with_an_alarm(tmp_path: Path) -> None:
    """The past is priced anew under a new Θ: over budget, and a policy that wants it stops; ledger and log say why."""
    clock = Clock(START)
    tight = theta_message(NARROW)
    wide = theta_message(BinaryTheta(0.01, 0.5, 0.01, 0.5))
    with desk(sqlite(tmp_path), clock=clock) as here:
        here.adopt(policy(theta={"start": tight, "floor": tight}))
        fill(here, 0, 1)
        (fine,) = here.cohort.ledger_states()
        assert fine.stopped is None
        released = here.cohort.released
        here.adopt(policy(2, theta={"start": wide, "floor": wide}, after_contradiction="stop"))
        (state,) = here.cohort.ledger_states()
        assert state.public.loss > state.public.budget
        assert state.stopped is not None
        assert "over_budget" in here.log.getvalue()
        here.window(2, noise=2)
        (one,) = here.cohort.close_due().windows
        assert one.refusal is not None
        assert here.cohort.released == released
        messages = [decode(Release, one.payload) for one in here.cohort.unsent()]
        assert all(message.loss <= message.budget for message in messages)
