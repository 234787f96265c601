"""Backs up a SQLite database to a file beside it, before an upgrade rewrites it.

The copy gets its name only when it is complete and on disk. It is never overwritten: a different copy gets a number. An
equal copy is reused, so that an upgrade that fails repeatedly does not fill the disk.
"""

from __future__ import annotations

import filecmp
import os
import sqlite3
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

from hushmq.broker.contract.problem import Problem


def back_up(database: Path, suffix: str, *, setting: str) -> Path:
    """Copy the committed state of the database to `<database>.<suffix>`; return the path of the copy, new or reused.

    The caller holds the database's write lock, so that nothing is written meanwhile. Raises Problem when the database
    cannot be copied; `setting` names the setting that contains its path.
    """
    part = database.with_name(f"{database.name}.{suffix}.part")
    try:
        try:
            _copy(database, part)
            return _keep(part, database.with_name(f"{database.name}.{suffix}"))
        finally:
            _remove(part)
    except (OSError, sqlite3.Error) as error:
        raise Problem(
            f"{setting}: {database} cannot be backed up beside itself before its upgrade: {error}; nothing was changed"
        ) from None


def _copy(database: Path, part: Path) -> None:
    like = database.stat()
    _remove(part)
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    # The database is read through SQLite only: closing another handle of the file would drop SQLite's locks on it.
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(part)) as target:
        source.backup(target)
    with suppress(PermissionError):
        os.chown(part, like.st_uid, like.st_gid)
    part.chmod(like.st_mode & 0o777)
    _sync(part)


def _keep(part: Path, wanted: Path) -> Path:
    for number in count(1):
        path = wanted if number == 1 else wanted.with_name(f"{wanted.name}.{number}")
        if not path.exists():
            part.rename(path)
            _sync(path.parent)
            return path
        if filecmp.cmp(part, path, shallow=False):
            return path
    raise AssertionError("unreachable")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(part: Path) -> None:
    """Remove the files of an interrupted copy."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        part.with_name(f"{part.name}{suffix}").unlink(missing_ok=True)
