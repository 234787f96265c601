"""Releases move to files, and every check reads them there; nothing is lost, doubled or priced otherwise."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from sqlalchemy import create_engine, event, select

from hushmq.broker.contract.policy_message import Window
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.query_message import SlidingQuery
from hushmq.calibrator.ledger import archive_file
from hushmq.calibrator.ledger.archive_file import ArchivedRelease, ArchiveRecord
from hushmq.calibrator.ledger.archive_releases import archive_releases
from hushmq.calibrator.ledger.archived_releases import Archive, all_releases, archive_records, opened
from hushmq.calibrator.ledger.live_accounts import accounts_under
from hushmq.calibrator.ledger.verify_ledger import check_archive, verify
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import open_store, open_to_read, reading
from tests.calibrator.conftest import Databases
from tests.calibrator.site import CALIBRATOR, STRANGER, STREAM, TOPICS, desk, policy, sqlite
from tests.child import in_child

EACH = {"short": Window(ticks=20, scopes=("cohort", "device"))}
EVER = "9999"
WINDOWS, KEPT = 6, 2


def fill(url: str, windows: int = WINDOWS, mark_path: Path | None = None) -> None:
    """Windows of the cohort and of three devices, all published."""
    with desk(url, mark_path=mark_path) as here:
        here.adopt(
            policy(windows=EACH, queries={"last": SlidingQuery(kind="sliding", window="short", windows=2)})
        )
        for number in range(windows):
            here.window(number)
            here.cohort.close_due()
        here.cohort.mark_sent(here.cohort.unsent())


def moved(
    url: str, folder: Path, *, before: str = EVER, kept: int = KEPT, most: int = 7
) -> list[ArchiveRecord]:
    engine = open_store(url)
    try:
        return list(
            archive_releases(
                engine, folder, cohort="test", key=CALIBRATOR, before=before, kept=kept, most=most
            )
        )
    finally:
        engine.dispose()


def everything(url: str, folder: Path | None = None) -> list[tuple[int, str, bytes]]:
    """All releases, of the archive as well where a folder is given."""
    with reading(open_to_read(url)) as db:
        found: list[ArchivedRelease] = list(all_releases(db, opened(db, folder)))
    return sorted((one.entry, one.topic, one.payload) for one in found)


def wrong(url: str, folder: Path) -> list[str]:
    """What `hushmq ledger verify --archive` finds."""
    with reading(open_to_read(url)) as db:
        archived = opened(db, folder)
        assert archived is not None
        whole = check_archive(archived, cohort="test", key=CALIBRATOR.public)
        checks = [whole, *verify(db, STREAM, archived=archived if whole.passed else None)]
    return [f"{one.name}: {one.detail}" for one in checks if not one.passed]


def test_the_archive_and_the_rest_are_what_there_was(databases: Databases, tmp_path: Path) -> None:
    """The newest windows of each sequence stay, all others are in files of at most so many; together they verify."""
    url = databases.fresh()
    fill(url)
    before = everything(url)
    records = moved(url, tmp_path)
    assert [one.number for one in records] == [1, 2, 3]
    assert sum(one.releases for one in records) == (WINDOWS - KEPT) * 4
    assert len(everything(url)) == KEPT * 4
    assert everything(url, tmp_path) == before
    assert wrong(url, tmp_path) == []
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.glob("*.gz"))
    assert moved(url, tmp_path) == []


@pytest.mark.parametrize("reach", [KEPT, KEPT + 2])
def test_later_windows_go_on_as_if_nothing_had_moved(
    reach: int, sqlite_databases: Databases, tmp_path: Path
) -> None:
    """Prices to the last bit; and all bytes, as long as so many windows stay as later releases reach back.

    (docs/theory-accounts.md, A12.) Two windows fewer, and smoothed frequencies tell that something is missing.
    """
    url = sqlite_databases.fresh()
    fill(url)
    twin = sqlite_databases.copy(url)
    moved(twin, tmp_path)

    def go_on(one: str) -> tuple[list[Any], float]:
        with (
            mock.patch("hushmq.pufferfish.noise.random_words.os.urandom", random.Random(7).randbytes),
            mock.patch("hushmq.broker.contract.release_smoothing.LONGEST", reach),
            desk(one) as here,
        ):
            here.window(WINDOWS)
            here.cohort.close_due()
            with here.engine.begin() as db:
                accounts = accounts_under(db, policy(windows=EACH), STREAM)
                accounts.follow(db)
                price = accounts.public_loss()
                newest = select(store.release).where(store.release.c.entry > WINDOWS * 2)
                return sorted((row.entry, row.topic, row.payload) for row in db.execute(newest)), price

    whole, archived = go_on(url), go_on(twin)
    assert len(whole[0]) == 4
    assert whole[1] == archived[1]
    assert (whole[0] == archived[0]) == (reach <= KEPT + 1)


@pytest.mark.parametrize("kept", [1, KEPT])
def test_what_is_needed_stays(kept: int, tmp_path: Path) -> None:
    """The newest release of every topic, what is not published yet, and what is not old."""
    url = sqlite(tmp_path)
    fill(url)
    with desk(url) as here:
        here.window(WINDOWS, devices=1)  # two devices are filled in
        here.cohort.close_due()
    assert moved(url, tmp_path / "archive", before="2000", kept=kept) == []
    moved(url, tmp_path / "archive", kept=kept)
    left = everything(url)
    assert {topic for _, topic, _ in left} == {topic for _, topic, _ in everything(url, tmp_path / "archive")}
    with reading(open_to_read(url)) as db:
        assert db.execute(select(store.release).where(store.release.c.sent.is_(False))).all()
    assert TOPICS.release(STREAM, "short", "cohort") in {topic for _, topic, _ in left}


def _remove(folder: Path) -> None:
    sorted(folder.glob("*.gz"))[1].unlink()


def _change(folder: Path) -> None:
    path = min(folder.glob("*.gz"))
    content = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(content.replace(b'"loss\\":', b'"loss\\":1')))


def _swap(folder: Path) -> None:
    one, two, *_ = sorted(folder.glob("*.gz"))
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)


def _cut(folder: Path) -> None:
    path = sorted(folder.glob("*.gz"))[2]
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(
    ("damage", "words"),
    [(_remove, "is missing"), (_change, "was changed"), (_swap, "was changed"), (_cut, "cannot be read")],
)
def test_a_damaged_archive_is_found_out(damage: Any, words: str, tmp_path: Path) -> None:
    """Missing, changed, reordered or cut off: it is named, and no release of it is taken."""
    url, folder = sqlite(tmp_path), tmp_path / "archive"
    fill(url)
    moved(url, folder)
    damage(folder)
    assert any(words in one for one in wrong(url, folder))


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM archive WHERE number = 2", "and not all up to the last"),
        ("UPDATE archive SET number = 10 - number", "and not all up to the last"),
        ("UPDATE archive SET seal = 'x' || seal WHERE number = 1", "was changed"),
    ],
)
def test_changed_records_are_found_out(statement: str, words: str, tmp_path: Path) -> None:
    """What the database says of the files has to fit them."""
    url, folder = sqlite(tmp_path), tmp_path / "archive"
    fill(url)
    moved(url, folder)
    engine = create_engine(url)
    with engine.begin() as db:
        db.exec_driver_sql(statement)
    engine.dispose()
    assert any(words in one for one in wrong(url, folder))


def test_a_release_in_two_places_is_found_out(tmp_path: Path) -> None:
    """A row that came back, as from a backup put over the database, is not counted twice in silence."""
    url, folder = sqlite(tmp_path), tmp_path / "archive"
    fill(url)
    shutil.copy(tmp_path / "ledger.db", tmp_path / "older.db")
    moved(url, folder)
    engine = create_engine(url)
    with engine.begin() as db:
        db.exec_driver_sql(f"ATTACH '{tmp_path / 'older.db'}' AS older")
        db.exec_driver_sql("INSERT INTO release SELECT * FROM older.release WHERE entry = 1")
    engine.dispose()
    assert any("has two results" in one for one in wrong(url, folder))


def test_seals_are_the_calibrators(tmp_path: Path) -> None:
    """Files that somebody else sealed are refused where the key is known."""
    url = sqlite(tmp_path)
    fill(url)
    moved(url, tmp_path / "archive")
    with reading(open_to_read(url)) as db:
        archived = Archive(tmp_path / "archive", archive_records(db))
        assert archived.faults(cohort="test", key=CALIBRATOR.public) == []
        assert "not sealed by this calibrator" in archived.faults(key=STRANGER.public)[0]
        assert "is of cohort test" in archived.faults(cohort="other")[0]


def test_an_older_database_moves_its_releases_again(tmp_path: Path) -> None:
    """After a restore from a backup of before: files of then are left alone, and the new ones verify."""
    url, folder = sqlite(tmp_path), tmp_path / "archive"
    fill(url)
    before = everything(url)
    shutil.copy(tmp_path / "ledger.db", tmp_path / "backup.db")
    moved(url, folder)
    shutil.copy(tmp_path / "backup.db", tmp_path / "ledger.db")
    moved(url, folder, most=5)
    assert everything(url, folder) == before
    assert wrong(url, folder) == []


def test_a_full_disk_moves_nothing(tmp_path: Path) -> None:
    """One line, and all releases are where they were."""
    url = sqlite(tmp_path)
    fill(url)
    before = everything(url)
    full = OSError(28, "No space left on device", str(tmp_path))
    with (
        mock.patch.object(archive_file.os, "fsync", side_effect=full),
        pytest.raises(Problem, match="No space left"),
    ):
        moved(url, tmp_path / "archive")
    assert everything(url) == before


@pytest.mark.slow
def test_killed_at_every_step(databases: Databases, tmp_path: Path) -> None:
    """With -9 before every statement, commit and write: every release is in the database or the archive, once."""
    url = databases.fresh()
    fill(url, windows=4)
    before = everything(url)
    fsync, replace = os.fsync, Path.replace
    for die_at in range(1, 200, databases.every):
        twin, folder = databases.copy(url), tmp_path / f"archive-{die_at}"

        def task(twin: str = twin, folder: Path = folder, die_at: int = die_at) -> None:
            left = die_at

            def step(*_: object, **__: object) -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            engine = open_store(twin)
            event.listen(engine, "before_cursor_execute", step)
            event.listen(engine, "commit", step)
            with (
                mock.patch.object(os, "fsync", lambda one: (step(), fsync(one))),
                mock.patch.object(Path, "replace", lambda one, to: (step(), replace(one, to), step())),
            ):
                for _ in archive_releases(
                    engine, folder, cohort="test", key=CALIBRATOR, before=EVER, kept=KEPT, most=5
                ):
                    step()

        ended = in_child(task)
        folder.mkdir(exist_ok=True)
        assert everything(twin, folder) == before, die_at
        moved(twin, folder, most=5)
        assert everything(twin, folder) == before, die_at
        assert wrong(twin, folder) == [], die_at
        if ended == 0:
            assert die_at > 20
            return
        assert ended == signal.SIGKILL
    pytest.fail("it never came to its end")
