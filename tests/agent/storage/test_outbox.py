"""The outbox is atomic and bounded, and never lets a tick be used twice."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.agent.storage.outbox import MadeBatch, NotStoredError, Outbox
from hushmq.agent.storage.outbox_balance import OVERHEAD
from hushmq.broker.contract.messages import Counted
from hushmq.broker.contract.problem import Problem

PERIODS = {"motion": 500, "sound": 500}


def opened(folder: Path, *, max_bytes: int = 10**6, max_age_s: int = 10**6, reserve_ms: int = 0) -> Outbox:
    return Outbox(folder, max_bytes=max_bytes, max_age_s=max_age_s, reserve_ms=reserve_ms)


def unforced(folder: Path, max_bytes: int) -> Outbox:
    """An outbox that does not sync, for tests with many steps and without power cuts."""
    outbox = opened(folder, max_bytes=max_bytes, reserve_ms=10**9)
    outbox._db.execute("PRAGMA synchronous = OFF")
    return outbox


def made(first: int, last: int, stream: str = "motion", size: int = 100) -> MadeBatch:
    """Return a batch that takes `size` bytes of the outbox."""
    return MadeBatch(stream, first, last, b"z" * (size - OVERHEAD))


def commit(
    outbox: Outbox, *batches: MadeBatch, seen: dict[str, Counted] | None = None, now_ms: int = 0
) -> None:
    outbox.commit(batches, periods=PERIODS, seen=seen or {}, now_ms=now_ms)


def seen(highest: int, *holes: tuple[int, int]) -> dict[str, Counted]:
    return {"motion": Counted(highest=highest, holes=holes)}


def balances(outbox: Outbox, stream: str = "motion") -> tuple[int, int, int, int]:
    balance = outbox.balances[stream]
    return balance.watermark, balance.sampled, balance.buffered, balance.dropped


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    found = opened(tmp_path)
    yield found
    found.close()


def test_what_is_committed_is_there_after_a_restart_byte_for_byte(tmp_path: Path) -> None:
    first = opened(tmp_path)
    commit(first, MadeBatch("motion", 1, 3, b"abc"), MadeBatch("sound", 1, 1, b"d"))
    pages = first.page(0, 10)
    first.close()
    again = opened(tmp_path)
    assert again.page(0, 10) == pages
    assert [(batch.stream, batch.payload) for batch in pages] == [("motion", b"abc"), ("sound", b"d")]
    assert balances(again) == (3, 3, 3, 0)
    again.close()


def test_it_is_sqlite_with_a_forced_log(outbox: Outbox) -> None:
    """WAL and synchronous=FULL: a commit that returned survives a power cut."""
    assert outbox._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert outbox._db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_used_tick_is_refused(outbox: Outbox) -> None:
    commit(outbox, made(1, 5))
    for first, last in ((5, 6), (1, 1), (3, 4)):
        with pytest.raises(RuntimeError, match="used tick"):
            commit(outbox, made(6, 6), made(first, last))
    assert balances(outbox) == (5, 5, 5, 0)
    assert len(outbox.page(0, 10)) == 1


@pytest.mark.parametrize(
    ("seen", "left"),
    [
        (seen(0), [(1, 5), (6, 10), (20, 24)]),
        (seen(5), [(6, 10), (20, 24)]),
        (seen(9), [(6, 10), (20, 24)]),
        (seen(10), [(20, 24)]),
        (seen(24), []),
        (seen(24, (7, 7)), [(6, 10)]),
        (seen(24, (1, 10)), [(1, 5), (6, 10)]),
        (seen(24, (11, 19)), []),
        (seen(30, (24, 25)), [(20, 24)]),
        ({"sound": Counted(highest=99)}, [(1, 5), (6, 10), (20, 24)]),
    ],
)
def test_a_batch_is_forgotten_only_when_every_tick_of_it_is_counted(
    outbox: Outbox, seen: dict[str, Counted], left: list[tuple[int, int]]
) -> None:
    commit(outbox, made(1, 5), made(6, 10), made(20, 24))
    commit(outbox, seen=seen)
    rows = outbox._db.execute("SELECT first, last FROM batch ORDER BY id").fetchall()
    assert rows == left
    assert outbox.balances["motion"].buffered == sum(last - first + 1 for first, last in left)
    assert outbox.balances["motion"].dropped == 0


def test_beyond_its_size_the_oldest_goes_first_and_is_counted(tmp_path: Path) -> None:
    outbox = opened(tmp_path, max_bytes=350)
    commit(outbox, made(1, 2), made(3, 4), made(5, 6))
    commit(outbox, made(7, 8))
    assert balances(outbox) == (8, 8, 6, 2)
    assert outbox._db.execute("SELECT first FROM batch ORDER BY id").fetchall() == [(3,), (5,), (7,)]
    assert outbox.bytes == 300
    outbox.close()


def test_beyond_its_age_the_oldest_goes_first_and_is_counted(tmp_path: Path) -> None:
    outbox = opened(tmp_path, max_age_s=10)
    commit(outbox, made(1, 2), now_ms=0)
    commit(outbox, made(3, 4), now_ms=10_000)
    assert balances(outbox) == (4, 4, 4, 0)
    commit(outbox, now_ms=10_001)
    assert balances(outbox) == (4, 4, 2, 2)
    outbox.close()


def test_a_dropped_batch_that_was_counted_after_all_is_no_longer_among_the_dropped(tmp_path: Path) -> None:
    """A batch sent before it was dropped is shown as counted by a late `seen`; ticks in a hole stay dropped."""
    outbox = opened(tmp_path, max_bytes=100)
    commit(outbox, made(1, 5))
    commit(outbox, made(6, 10))
    commit(outbox, made(11, 15))
    assert balances(outbox) == (15, 15, 5, 10)
    outbox.close()
    outbox = opened(tmp_path, max_bytes=100)
    commit(outbox, seen=seen(15, (8, 9)))
    assert balances(outbox) == (15, 15, 0, 2)
    commit(outbox, seen=seen(15))
    assert balances(outbox) == (15, 15, 0, 0)
    outbox.close()


def test_lost_runs_are_remembered_in_bounded_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest lost runs are kept; older ones stay dropped, and the balance still holds."""
    monkeypatch.setattr("hushmq.agent.storage.outbox.LOST_RUNS", 8)
    outbox = unforced(tmp_path, max_bytes=100)
    for tick in range(0, 40, 2):
        commit(outbox, made(tick, tick))
    assert list(outbox.balances["motion"].lost) == [(tick, tick) for tick in range(22, 38, 2)]
    assert outbox.balances["motion"].dropped == 19
    commit(outbox, seen=seen(38))
    assert balances(outbox) == (38, 20, 0, 11)
    outbox.close()


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("make"), st.integers(1, 6), st.integers(0, 3)),
            st.tuples(st.just("see"), st.integers(0, 80), st.integers(0, 80)),
            st.tuples(st.just("restart"), st.just(0), st.just(0)),
        ),
        max_size=25,
    )
)
def test_the_balance_always_holds(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    """Compared with a model, sampled = counted + buffered + dropped after every step, in any order of events."""
    folder = tmp_path_factory.mktemp("outbox")
    outbox = unforced(folder, max_bytes=400)
    next_tick, batches, counted = 0, list[set[int]](), set[int]()
    for what, one, two in steps:
        if what == "make":
            first, next_tick = next_tick + two, next_tick + two + one
            commit(outbox, made(first, next_tick - 1))
            batches.append(set(range(first, next_tick)))
        elif what == "see":
            # The peer counts some of all batches, including dropped ones, and reports them truthfully.
            asked = set(range(one, one + two + 1))
            counted |= set[int]().union(*(batch for batch in batches if batch & asked))
            if counted:
                holes = tuple((tick, tick) for tick in range(max(counted)) if tick not in counted)
                commit(outbox, seen=seen(max(counted), *holes))
        else:
            outbox.close()
            outbox = unforced(folder, max_bytes=400)
        if batches:
            _, sampled, buffered, dropped = balances(outbox)
            assert sampled == sum(map(len, batches)) == len(counted) + buffered + dropped
    outbox.close()


def test_a_restart_restores_the_newest_waiting_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adjacent batches form one run; beyond the limit the oldest runs are forgotten, but not their number of ticks."""
    monkeypatch.setattr("hushmq.agent.storage.outbox.LOST_RUNS", 3)
    monkeypatch.setattr("hushmq.agent.storage.outbox_balance.LOST_RUNS", 3)
    outbox = opened(tmp_path)
    commit(outbox, *(made(first, first + 1) for first in (0, 10, 12, 14, 20, 30, 32)))
    expected = [(10, 15), (20, 21), (30, 33)]
    for _ in range(2):
        assert list(outbox.balances["motion"].waiting) == expected
        assert balances(outbox) == (33, 14, 14, 0)
        outbox.close()
        outbox = opened(tmp_path)
    outbox.close()


@pytest.mark.parametrize("at_once", [1, 3, 7])
def test_one_commit_deletes_a_bounded_number_of_batches_and_the_next_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Batches seen once are all deleted over the next beats, except holes; so are batches that are too old."""
    monkeypatch.setattr("hushmq.agent.storage.outbox.AT_ONCE", at_once)
    outbox = opened(tmp_path, max_age_s=10)
    commit(outbox, *(made(tick, tick) for tick in range(20)))
    commit(outbox, seen=seen(18, (3, 9)))
    for beat in range(1, 12):
        assert outbox.balances["motion"].buffered == max(8, 20 - at_once * beat)
        commit(outbox)
    assert [tick for run in outbox.balances["motion"].waiting for tick in range(run[0], run[1] + 1)] == [
        *range(3, 10),
        19,
    ]
    commit(outbox, now_ms=10_001)
    assert balances(outbox) == (19, 20, max(0, 8 - at_once), min(8, at_once))
    outbox.close()


def _cut_to_nothing(path: Path) -> None:
    path.write_bytes(b"")


def _fill_with_rubbish(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def _damage_pages(path: Path) -> None:
    with path.open("r+b") as file:
        size = path.stat().st_size
        for place in range(4096, size, 4096):
            file.seek(place)
            file.write(b"\xaa" * 512)


@pytest.mark.parametrize("damage", [_cut_to_nothing, _fill_with_rubbish, _damage_pages, Path.unlink])
def test_a_damaged_file_loses_neither_watermark_nor_count(
    tmp_path: Path, damage: Callable[[Path], Any]
) -> None:
    """Waiting ticks are lost and counted as dropped, until `seen` shows that they were counted."""
    outbox = opened(tmp_path, reserve_ms=5_000)
    commit(outbox, made(1, 5))
    commit(outbox, made(8, 10), seen=seen(5))
    outbox._db.close()  # as a crash leaves it: no checkpoint, no release of the reservation
    for suffix in ("-wal", "-shm"):
        Path(f"{tmp_path / 'outbox.db'}{suffix}").unlink(missing_ok=True)
    damage(tmp_path / "outbox.db")
    outbox = opened(tmp_path, reserve_ms=5_000)
    watermark, sampled, buffered, dropped = balances(outbox)
    assert watermark == 5 + 5_000 // 500 >= 10
    assert (sampled, buffered, dropped) == (8, 0, 3)
    if damage in {_fill_with_rubbish, _damage_pages}:
        assert outbox.set_aside is not None
        assert outbox.set_aside.exists()
    with pytest.raises(RuntimeError, match="used tick"):
        commit(outbox, made(10, 11))
    commit(outbox, made(16, 16), seen=seen(10))
    assert balances(outbox) == (16, 9, 1, 0)
    outbox.close()


def test_damage_found_while_running_is_reported_to_the_caller(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    commit(outbox, *(made(n, n, size=4000) for n in range(1, 50)))
    outbox._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    _damage_pages(tmp_path / "outbox.db")
    outbox._db.execute("PRAGMA cache_size = 0")
    with pytest.raises(sqlite3.DatabaseError):
        commit(outbox, made(100, 100), seen=seen(60))
    outbox.recover()
    assert balances(outbox) == (49, 49, 0, 49)
    outbox.close()


def test_a_full_disk_stores_nothing_of_the_beat_and_recovers(tmp_path: Path) -> None:
    """A page limit simulates a full disk; when there is space again, the outbox works as before."""
    outbox = opened(tmp_path)
    commit(outbox, made(1, 5))
    pages = outbox._db.execute("PRAGMA page_count").fetchone()[0]
    outbox._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(NotStoredError, match="full") as caught:
        commit(outbox, made(6, 10, size=50_000))
    assert caught.value.disk_full
    assert balances(outbox) == (5, 5, 5, 0)
    outbox._db.execute("PRAGMA max_page_count = 1000000")
    commit(outbox, made(11, 12))
    assert balances(outbox) == (12, 7, 7, 0)
    outbox.close()


def test_a_locked_outbox_is_not_called_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup that holds the file: nothing of the beat is stored, and the reason is the lock."""
    monkeypatch.setattr("hushmq.agent.storage.outbox.PATIENCE_S", 0.05)
    outbox = opened(tmp_path)
    other = sqlite3.connect(tmp_path / "outbox.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(NotStoredError, match="locked") as caught:
        commit(outbox, made(1, 5))
    assert not caught.value.disk_full
    other.close()
    commit(outbox, made(6, 7))
    assert balances(outbox) == (7, 2, 2, 0)
    outbox.close()


def test_a_folder_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "outbox.db").mkdir()
    with pytest.raises(Problem, match=r"folder: .*outbox\.db"):
        opened(tmp_path)


def test_the_number_of_forced_writes_is_one_per_beat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Besides SQLite's fsync at each commit, the mark is synced once per reservation."""
    forced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (forced.append(handle), real(handle))[1])
    outbox = opened(tmp_path, reserve_ms=300_000)
    for beat in range(360):  # an hour of 2 Hz at a beat of ten seconds
        commit(outbox, made(20 * beat, 20 * beat + 19), seen=seen(20 * beat - 1) if beat else None)
    assert len(forced) <= 2 * 13  # file and folder, every five minutes
    outbox.close()
