"""The console's log: every change of policy, setting, key and device, and who viewed what, as a chain of digests.

One entry is one line of JSON. Its digest covers its fields and the digest before it, so that no entry can be changed,
removed or moved without all later ones showing it. Where a stream's ledger has moved since the entry before, the entry
carries the number of its entries and its head: the log stands beside the ledger's own chain, and each dates the other.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, get_args

from hushmq.broker.contract.problem import Problem

LogKind = Literal[
    "policy", "setting", "key", "device", "ledger", "login", "user", "view", "upload", "job", "console"
]
KINDS: tuple[LogKind, ...] = get_args(LogKind)
STATED: frozenset[LogKind] = frozenset({"policy", "setting", "key", "user"})
"""Kinds of which an entry states what holds from then on: a console that starts again does not repeat it."""
FIRST_DIGEST = "0" * 64
"""The digest before the first entry."""
KEPT = 5_000
"""Entries in memory, to be shown; all are in the file."""
KEPT_OF_DEVICE = 50
"""Entries in memory about each device, however long ago they were written."""

Happened = tuple[str, str]
"""When something happened to a device, and what, in words."""
Heads = Mapping[str, tuple[int, str]]
"""By stream, how many entries its ledger has, and its head."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of the log."""

    number: int
    at: str
    who: str
    kind: LogKind
    subject: str
    words: str
    digest: str
    ledger: Heads = field(default_factory=dict)
    """Ledgers that have moved since the entry before."""

    def line(self) -> str:
        return json.dumps(_fields(self) | {"digest": self.digest}, ensure_ascii=False) + "\n"


def _fields(entry: LogEntry) -> dict[str, Any]:
    moved = {stream: list(head) for stream, head in sorted(entry.ledger.items())}
    fields = {name: getattr(entry, name) for name in ("number", "at", "who", "kind", "subject", "words")}
    return fields | ({"ledger": moved} if moved else {})


def entry_digest(before: str, entry: LogEntry) -> str:
    """The digest of an entry after another: BLAKE2b over the digest before and the fields as JSON, in order."""
    content = json.dumps([before, *_fields(entry).items()], separators=(",", ":"))
    return blake2b(content.encode(), digest_size=32).hexdigest()


class ActivityLog:
    """The log in a file, which only grows. Entries are written by `flush`, several at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: deque[LogEntry] = deque(maxlen=KEPT)
        self._of_devices: dict[str, deque[Happened]] = {}
        self._stated: dict[tuple[LogKind, str], str] = {}
        self._unwritten: list[LogEntry] = []
        self._heads: dict[str, tuple[int, str]] = {}
        self._moved: dict[str, tuple[int, str]] = {}
        self.head, self.count = FIRST_DIGEST, 0
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise Problem(f"log_file: {path}: {error.strerror}") from None
        self._cut_unfinished()
        for entry in read_log(path):
            self._keep(entry)

    def _cut_unfinished(self) -> None:
        """Remove a last line that a crash cut short: no entry in it was ever shown to be written."""
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.ftruncate(self._file, self.path.read_bytes().rfind(b"\n") + 1)

    def _keep(self, entry: LogEntry) -> None:
        self.entries.append(entry)
        self.head, self.count = entry.digest, entry.number
        self._heads.update(entry.ledger)
        if entry.kind == "device":
            mine = self._of_devices.setdefault(entry.subject, deque(maxlen=KEPT_OF_DEVICE))
            mine.append((entry.at, entry.words))
        elif entry.kind in STATED:
            self._stated[entry.kind, entry.subject] = entry.words

    def ledger_moved(self, stream: str, entries: int, head: str) -> None:
        """Have the next entry carry where a stream's ledger stands, if it has moved."""
        if self._heads.get(stream) != (entries, head):
            self._moved[stream] = (entries, head)

    def add(self, who: str, kind: LogKind, subject: str, words: str) -> LogEntry:
        """Append an entry; `flush` writes it."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        bare = LogEntry(self.count + 1, at, who, kind, subject, words, "", dict(self._moved))
        fields = {
            name: getattr(bare, name)
            for name in ("number", "at", "who", "kind", "subject", "words", "ledger")
        }
        entry = LogEntry(**fields, digest=entry_digest(self.head, bare))
        self._moved.clear()
        self._keep(entry)
        self._unwritten.append(entry)
        return entry

    def flush(self) -> None:
        """Write what was added since the last time, and wait until it is on disk."""
        if self._unwritten:
            lines, self._unwritten = self._unwritten, []
            os.write(self._file, "".join(entry.line() for entry in lines).encode())
            os.fsync(self._file)

    def close(self) -> None:
        self.flush()
        os.close(self._file)

    def of_device(self, name: str) -> list[Happened]:
        """What happened to a device, the newest first."""
        return list(reversed(self._of_devices.get(name, ())))

    def states(self, kind: LogKind, subject: str, words: str) -> bool:
        """Whether the last entry of this kind about the subject says the same; of kinds in `STATED`."""
        return self._stated.get((kind, subject)) == words

    def stated(self, kind: LogKind) -> dict[str, str]:
        """By subject, what the last entries of a kind in `STATED` say."""
        return {subject: words for (of, subject), words in self._stated.items() if of == kind}


def read_log(path: Path) -> Iterator[LogEntry]:
    """All entries of a file; raise Problem at a line that is none."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                tree = json.loads(line)
                moved = {stream: (int(one[0]), str(one[1])) for stream, one in tree.pop("ledger", {}).items()}
                yield LogEntry(**tree, ledger=moved)
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
                raise Problem(f"log_file: {path}: line {number} is no entry of the log") from None
