"""A file of archived releases: written once, complete or not there, and never changed.

JSON lines, compressed with gzip. The first line says which file of which cohort it is and has the digest of the file
before it; then comes a line for each release, in the order of entries, with the bytes that were published; the last
line has the digest of all lines before it and the calibrator's seal over cohort, number and digest. So files form a
chain, as entries do: none can be changed, left out or put elsewhere. The digest is part of the name: a file never takes
the place of another.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from hushmq.broker.contract.signature import PrivateKey, PublicKey

FORMAT = 1


@dataclass(frozen=True, slots=True)
class ArchivedRelease:
    """What was published for an entry on a topic."""

    entry: int
    topic: str
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ArchiveRecord:
    """What the database keeps of a file."""

    number: int
    at: str
    releases: int
    first: int
    last: int
    digest: str
    seal: str

    def file_name(self, cohort: str) -> str:
        return f"{cohort}-{self.number:06d}-{self.digest[:12]}.jsonl.gz"


def sealed_text(cohort: str, number: int, digest: str) -> bytes:
    """What is sealed of a file."""
    return f"archive\n{cohort}\n{number}\n{digest}".encode()


def write_archive(
    folder: Path,
    releases: Sequence[ArchivedRelease],
    *,
    cohort: str,
    number: int,
    before: str,
    at: str,
    key: PrivateKey,
) -> ArchiveRecord:
    """Write a file durably and return what the database is to keep of it; OSError where that is not possible."""
    head = {"archive": FORMAT, "cohort": cohort, "number": number, "before": before, "at": at}
    lines = [_line({**head, "releases": len(releases)})]
    lines += [
        _line({"entry": one.entry, "topic": one.topic, "payload": one.payload.decode()}) for one in releases
    ]
    content = b"".join(lines)
    digest = blake2b(content, digest_size=32).hexdigest()
    seal = key.seal(sealed_text(cohort, number, digest))
    record = ArchiveRecord(number, at, len(releases), releases[0].entry, releases[-1].entry, digest, seal)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write_durably(
        folder / record.file_name(cohort),
        gzip.compress(content + _line({"digest": digest, "seal": seal}), mtime=0),
    )
    return record


def _line(tree: dict[str, Any]) -> bytes:
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _write_durably(path: Path, content: bytes) -> None:
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    opened = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def file_fault(
    path: Path, record: ArchiveRecord, *, cohort: str | None, before: str, key: PublicKey | None
) -> str | None:
    """Why a file is not the one that was written as this record, after the one with digest `before`; None if it is."""
    found = blake2b(digest_size=32)
    count, last, head = 0, b"", b""
    try:
        with gzip.open(path, "rb") as file:
            head = last = next(iter(file), b"")
            for line in file:
                found.update(last)
                count, last = count + 1, line
    except FileNotFoundError:
        return f"{path} is missing"
    except (OSError, EOFError, zlib.error) as error:
        return f"{path} cannot be read: {error}"
    if found.hexdigest() != record.digest or last != _line({"digest": record.digest, "seal": record.seal}):
        return f"{path} was changed"
    tree = json.loads(head)
    if (tree["number"], tree["before"], tree["releases"]) != (record.number, before, count - 1):
        return f"{path} is not the one that followed number {record.number - 1}"
    if cohort is not None and tree["cohort"] != cohort:
        return f"{path} is of cohort {tree['cohort']}"
    if key is not None and not key.sealed(
        sealed_text(tree["cohort"], record.number, record.digest), record.seal
    ):
        return f"{path} was not sealed by this calibrator"
    return None


def read_archive(path: Path) -> Iterator[ArchivedRelease]:
    """The releases in a file that was found right, in the order of entries."""
    with gzip.open(path, "rb") as file:
        next(file)
        for line in file:
            tree = json.loads(line)
            if "payload" in tree:
                yield ArchivedRelease(tree["entry"], tree["topic"], tree["payload"].encode())
