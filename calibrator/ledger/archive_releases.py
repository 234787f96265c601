"""Moves old releases to files: what grows with time is kept outside of the database, and still verifies.

Entries stay: every loss is computed from them, and as the influence of a tilt falls with the distance but never ends,
none can be left out (docs/theory-accounts.md, A12). Releases are what was published for them; no loss depends on them.
Those that later ones are made of stay as well: the newest windows of each sequence, for smoothed frequencies and
sliding windows, and the newest of each topic, which a broker that comes back empty retains again.

First the file, durably; then, in one transaction, its record and the end of its rows. Killed in between, the database
knows nothing of the file: the same releases are moved to another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, func, insert, or_, select, tuple_

from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.query_message import LONGEST_SLIDE
from hushmq.broker.contract.release_smoothing import LONGEST
from hushmq.broker.contract.signature import PrivateKey
from hushmq.calibrator.ledger.archive_file import ArchivedRelease, ArchiveRecord, write_archive
from hushmq.calibrator.ledger.high_water_mark import EMPTY_HEAD
from hushmq.calibrator.store.tables import archive, ledger, release

KEPT = max(LONGEST, LONGEST_SLIDE)
"""Windows of a sequence whose releases stay: no release is made of an earlier one."""
MOST = 10_000
"""Releases in a file: a transaction that ends so many rows takes a fraction of a second."""
AT_ONCE = 500
"""Rows that one statement deletes."""


def archive_releases(
    engine: Engine,
    folder: Path,
    *,
    cohort: str,
    key: PrivateKey,
    before: str,
    kept: int = KEPT,
    most: int = MOST,
) -> Iterator[ArchiveRecord]:
    """Move the releases of entries that were written before a time to files, and yield each file when it is done.

    `before` is in UTC as `ledger.at` is. Problem where the folder cannot be written.
    """
    while True:
        with engine.begin() as db:
            number, digest = _last(db)
            chosen = _chosen(db, before, kept, most)
        if not chosen:
            return
        try:
            record = write_archive(
                folder,
                chosen,
                cohort=cohort,
                number=number + 1,
                before=digest,
                at=datetime.now(UTC).isoformat(timespec="seconds"),
                key=key,
            )
        except OSError as error:
            raise Problem(f"--out: {error.filename or folder}: {error.strerror}; nothing was moved") from None
        with engine.begin() as db:
            _move(db, record, chosen, digest)
        yield record


def _last(db: Connection) -> tuple[int, str]:
    """The number and digest of the newest file."""
    found = db.execute(select(archive.c.number, archive.c.digest).order_by(archive.c.number.desc())).first()
    return (0, EMPTY_HEAD) if found is None else (found.number, found.digest)


def _chosen(db: Connection, before: str, kept: int, most: int) -> list[ArchivedRelease]:
    """The oldest releases that may be moved."""
    old = [*_old_windows(db, before, kept)]
    if not old:
        return []
    later = release.alias("later")
    newest = (
        select(func.max(later.c.entry))
        .where(later.c.topic == release.c.topic, later.c.sent.is_(True))
        .scalar_subquery()
    )
    rows = db.execute(
        select(release.c.entry, release.c.topic, release.c.payload)
        .join(ledger, ledger.c.id == release.c.entry)
        .where(or_(*old), release.c.sent.is_(True), release.c.entry < newest)
        .order_by(release.c.entry, release.c.topic)
        .limit(most)
    )
    return [ArchivedRelease(row.entry, row.topic, row.payload) for row in rows]


def _old_windows(db: Connection, before: str, kept: int) -> Iterator[ColumnElement[bool]]:
    """For each sequence of windows, which entries are older than its newest `kept` and than the time."""
    keys = (ledger.c.stream, ledger.c.window, ledger.c.scope)
    for names in db.execute(select(*keys).where(ledger.c.audience == "public").distinct()).all():
        mine = and_(
            ledger.c.audience == "public", *(key == name for key, name in zip(keys, names, strict=True))
        )
        floor = db.execute(
            select(ledger.c.id).where(mine).order_by(ledger.c.id.desc()).offset(kept - 1).limit(1)
        ).scalar()
        if floor is not None:
            yield and_(mine, ledger.c.id < floor, ledger.c.at < before)


def _move(db: Connection, record: ArchiveRecord, chosen: list[ArchivedRelease], digest: str) -> None:
    """Write the file down and delete its rows; Problem, and nothing is changed, where somebody else did meanwhile."""
    gone = 0
    if _last(db) == (record.number - 1, digest):
        for start in range(0, len(chosen), AT_ONCE):
            keys = [(one.entry, one.topic) for one in chosen[start : start + AT_ONCE]]
            gone += db.execute(
                delete(release).where(tuple_(release.c.entry, release.c.topic).in_(keys))
            ).rowcount
    if gone != len(chosen):
        raise Problem("the releases were moved by somebody else meanwhile: nothing was changed, try again")
    db.execute(
        insert(archive).values(
            number=record.number,
            at=record.at,
            releases=record.releases,
            first=record.first,
            last=record.last,
            digest=record.digest,
            seal=record.seal,
        )
    )
