"""The archive of a cohort: the files that its database names, checked, and read beside what is in the database."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, select

from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PublicKey
from hushmq.calibrator.ledger.archive_file import ArchivedRelease, ArchiveRecord, file_fault, read_archive
from hushmq.calibrator.ledger.high_water_mark import EMPTY_HEAD
from hushmq.calibrator.store.tables import archive, release


def archive_records(db: Connection) -> list[ArchiveRecord]:
    """The files that releases were moved to, in order."""
    return [ArchiveRecord(**row._mapping) for row in db.execute(select(archive).order_by(archive.c.number))]


def archived_in_words(records: Sequence[ArchiveRecord]) -> str | None:
    """How much is in the archive, in a sentence; None where nothing is."""
    if not records:
        return None
    files = "1 file" if len(records) == 1 else f"{len(records)} files"
    return (
        f"{sum(one.releases for one in records):,} older releases, of entries {min(one.first for one in records)} to "
        f"{max(one.last for one in records)}, are in the archive, in {files}"
    )


@dataclass(frozen=True, slots=True)
class Archive:
    """The files in a folder, as the database names them."""

    folder: Path
    records: Sequence[ArchiveRecord]

    def faults(self, *, cohort: str | None = None, key: PublicKey | None = None) -> list[str]:
        """What is wrong with the files: missing, changed, of another cohort, or not in their order."""
        numbers = [one.number for one in self.records]
        if numbers != list(range(1, len(numbers) + 1)):
            return [
                f"the database names the files {', '.join(map(str, numbers))}, and not all up to the last"
            ]
        before, wrong = EMPTY_HEAD, []
        for one in self.records:
            fault = file_fault(self._path(one), one, cohort=cohort, before=before, key=key)
            wrong += [] if fault is None else [fault]
            before = one.digest
        return wrong

    def releases(self) -> Iterator[ArchivedRelease]:
        """All that the files hold, in the order of entries; they must have been found right."""
        return heapq.merge(*(read_archive(self._path(one)) for one in self.records), key=_entry)

    def _path(self, record: ArchiveRecord) -> Path:
        found = sorted(self.folder.glob(f"*{record.file_name('')}"))
        return found[0] if found else self.folder / record.file_name("")


def opened(db: Connection, folder: Path | None) -> Archive | None:
    """The archive in a folder, not checked yet; Problem where there is no such folder."""
    if folder is None:
        return None
    if not folder.is_dir():
        raise Problem(f"--archive: {folder} is no folder: give the one that hushmq ledger archive wrote to")
    return Archive(folder, archive_records(db))


def all_releases(db: Connection, archived: Archive | None) -> Iterator[ArchivedRelease]:
    """What is in the archive, where it is given, and in the database, in the order of entries."""
    rows = db.execute(
        select(release.c.entry, release.c.topic, release.c.payload).order_by(release.c.entry, release.c.topic)
    )
    stored = (ArchivedRelease(row.entry, row.topic, row.payload) for row in rows)
    return stored if archived is None else heapq.merge(archived.releases(), stored, key=_entry)


def _entry(one: ArchivedRelease) -> int:
    return one.entry
