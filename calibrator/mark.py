"""The ledger's high-water mark: how an old database is found out.

The entries of a stream form a chain: each one's digest covers its own fields and the digest before it. So the pair
(number of entries, last digest) stands for the whole account, and a ledger has been cut short or rewritten
exactly if a mark seen earlier does not lie on its chain. Marks are kept where a restored backup does not reach:
in a file outside the database, and retained on the broker, sealed with the calibrator's key. A calibrator whose
ledger does not reach a mark charges nothing, for what was spent after the backup is forgotten but not undone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select

from broker.problem import Problem
from broker.process import write_private
from calibrator.store import ledger

NOTHING = "0" * 64
"""The digest before the first entry."""
FIELDS = (
    "stream",
    "window",
    "scope",
    "audience",
    "first",
    "last",
    "tilt",
    "noise",
    "noise_digest",
    "why",
    "at",
)


@dataclass(frozen=True, slots=True)
class Mark:
    """How many entries a stream's ledger has and the digest of the last."""

    entries: int = 0
    head: str = NOTHING

    def text(self, cohort: str, stream: str) -> bytes:
        """What is sealed."""
        return f"{cohort}\n{stream}\n{self.entries}\n{self.head}".encode()


def digest(before: str, fields: Mapping[str, Any]) -> str:
    """The digest of an entry after another: BLAKE2b over the digest before and the fields as JSON, in order."""
    content = json.dumps([before, *(fields[name] for name in FIELDS)], separators=(",", ":"))
    return blake2b(content.encode(), digest_size=32).hexdigest()


def mark_of(db: Connection, stream: str) -> Mark:
    """Where the stream's ledger stands."""
    count = db.execute(select(func.count()).select_from(ledger).where(ledger.c.stream == stream)).scalar_one()
    return Mark(count, head_of(db, stream))


def head_of(db: Connection, stream: str) -> str:
    """The digest of the stream's last entry."""
    found = db.execute(
        select(ledger.c.digest).where(ledger.c.stream == stream).order_by(ledger.c.id.desc()).limit(1)
    ).scalar()
    return NOTHING if found is None else str(found)


def contradiction(db: Connection, stream: str, mark: Mark) -> str | None:
    """Why the stream's ledger does not reach a mark; None if the mark lies on its chain."""
    if mark.entries == 0:
        return None
    found = db.execute(
        select(ledger.c.digest)
        .where(ledger.c.stream == stream)
        .order_by(ledger.c.id)
        .offset(mark.entries - 1)
        .limit(1)
    ).scalar()
    if found is None:
        have = mark_of(db, stream).entries
        return f"the ledger has {have} entries and has had {mark.entries}: it was restored from an old backup"
    if found != mark.head:
        return (
            f"entry number {mark.entries} is not the one that was written: the ledger was replaced or changed"
        )
    return None


def read_marks(path: Path) -> dict[str, Mark]:
    """The marks in a file, by stream; none where there is no file yet."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        return {stream: Mark(int(mark["entries"]), str(mark["head"])) for stream, mark in tree.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Problem(f"mark_file: {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Problem(f"mark_file: {path} is no file of marks: put back the one that was there") from None


def write_marks(path: Path, marks: Mapping[str, Mark]) -> None:
    """Replace the file, durably."""
    try:
        write_private(path, json.dumps({stream: asdict(mark) for stream, mark in sorted(marks.items())}))
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise Problem(f"mark_file: {path}: {error.strerror}") from None
