"""The ledger's high-water mark: how a database restored from an old backup is detected.

The entries of a stream form a chain: each one's digest covers its own fields and the digest before it. So the pair
(number of entries, last digest) stands for the whole account, and a ledger has been cut short or rewritten
exactly if a mark seen earlier does not lie on its chain. Marks are kept where a restored backup does not reach:
in a file outside the database, and retained on the broker, sealed with the calibrator's key. A calibrator whose
ledger does not reach a mark charges nothing, for what was spent after the backup is forgotten but not undone. It goes
on when ops have signed what that costs at most (calibrator/ledger/reconcile_ledger.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.messages import LedgerState, decode
from hushmq.broker.contract.problem import Problem, Reason, Rejected
from hushmq.broker.contract.reconciliation import Reconciliation
from hushmq.broker.contract.signature import PrivateKey, PublicKey, verify
from hushmq.broker.provision.broker_process import write_private
from hushmq.calibrator.ledger.entry_numbers import SkippedNumbers, last_number, place_of, skipped_numbers
from hushmq.calibrator.store.storage_away import StorageAway
from hushmq.calibrator.store.tables import ledger

EMPTY_HEAD = "0" * 64
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
class HighWaterMark:
    """The number of a stream's last entry (calibrator/ledger/entry_numbers.py) and its digest."""

    entries: int = 0
    head: str = EMPTY_HEAD

    def text(self, cohort: str, stream: str) -> bytes:
        """What is sealed."""
        return f"{cohort}\n{stream}\n{self.entries}\n{self.head}".encode()


def digest(before: str, fields: Mapping[str, Any]) -> str:
    """The digest of an entry after another: BLAKE2b over the digest before and the fields as JSON, in order."""
    content = json.dumps([before, *(fields[name] for name in FIELDS)], separators=(",", ":"))
    return blake2b(content.encode(), digest_size=32).hexdigest()


def mark_of(db: Connection, stream: str) -> HighWaterMark:
    """Where the stream's ledger stands."""
    return HighWaterMark(last_number(db, stream), head_of(db, stream))


_HEAD = (
    select(ledger.c.digest)
    .where(ledger.c.stream == bindparam("stream"))
    .order_by(ledger.c.id.desc())
    .limit(1)
)


def head_of(db: Connection, stream: str) -> str:
    """The digest of the stream's last entry."""
    found = db.execute(_HEAD, {"stream": stream}).scalar()
    return EMPTY_HEAD if found is None else str(found)


def append_entry(db: Connection, fields: Mapping[str, Any]) -> int:
    """Append an entry to the chain of its stream and return its id."""
    result = db.execute(insert(ledger), {**fields, "digest": digest(head_of(db, fields["stream"]), fields)})
    key = result.inserted_primary_key
    if key is None:
        raise RuntimeError("the database gave the ledger entry no number")
    return int(key[0])


def contradiction(
    db: Connection, stream: str, mark: HighWaterMark, ops_keys: Iterable[PublicKey] = ()
) -> str | None:
    """Why the stream's ledger does not reach a mark; None if the mark lies on its chain.

    Or if what was lost with the entry that it is of is charged: one of these keys must have signed that.
    """
    if mark.entries == 0:
        return None
    skipped = skipped_numbers(db, stream)
    if any(_charged(one, stream, mark, ops_keys) for one in skipped):
        return None
    place = place_of(mark.entries, skipped)
    if place is None:
        return f"entry number {mark.entries} is lost, and no key that is trusted here signed what was charged for it"
    found = db.execute(
        select(ledger.c.digest).where(ledger.c.stream == stream).order_by(ledger.c.id).offset(place).limit(1)
    ).scalar()
    if found is None:
        have = mark_of(db, stream).entries
        why = f"the ledger has {have} entries and has had {mark.entries}: it was restored from an old backup"
    elif found != mark.head:
        why = (
            f"entry number {mark.entries} is not the one that was written: the ledger was replaced or changed"
        )
    else:
        return None
    return f"{why}; restore a newer one, or charge what is missing with hushmq ledger reconcile"


def _charged(one: SkippedNumbers, stream: str, mark: HighWaterMark, ops_keys: Iterable[PublicKey]) -> bool:
    """Whether ops have signed what was charged for the entry of a mark."""
    if mark.entries > one.entries:
        return False
    try:
        lost = verify(Reconciliation, one.payload, ops_keys).streams[stream]
    except Rejected:
        return False
    if (lost.after, max(lost.entries, lost.after)) != (one.after, one.entries):
        return False
    return mark.entries > one.after or (mark.entries, mark.head) == (lost.entries, lost.head)


def read_marks(path: Path) -> dict[str, HighWaterMark]:
    """The marks in a file, by stream; none where there is no file yet."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        return {
            stream: HighWaterMark(int(mark["entries"]), str(mark["head"])) for stream, mark in tree.items()
        }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Problem(f"mark_file: {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Problem(f"mark_file: {path} is no file of marks: put back the one that was there") from None


def unreached_marks(db: Connection, path: Path | None, ops_keys: Iterable[PublicKey] = ()) -> dict[str, str]:
    """By stream whose ledger does not reach its mark in a file, why: nothing of it is charged."""
    marks = {} if path is None else read_marks(path)
    found = {stream: contradiction(db, stream, mark, ops_keys) for stream, mark in marks.items()}
    return {stream: why for stream, why in found.items() if why is not None}


def write_marks(path: Path, marks: Mapping[str, HighWaterMark]) -> None:
    """Replace the file, durably; StorageAway when that is not possible now."""
    try:
        write_private(path, json.dumps({stream: asdict(mark) for stream, mark in sorted(marks.items())}))
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StorageAway(f"mark_file: {path}: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class Sealed:
    """A mark as it is published."""

    entries: int
    head: str
    seal: str


class HighWaterMarks:
    """Compares each stream's ledger with every mark there is, and writes new ones."""

    def __init__(
        self,
        db: Connection,
        *,
        cohort: str,
        key: PrivateKey,
        path: Path | None,
        log: FilteringBoundLogger,
        ops_keys: Iterable[PublicKey] = (),
    ) -> None:
        self.stopped: dict[str, str] = {}
        """Streams whose ledger does not reach a mark, and why: nothing of them is charged."""
        self._cohort = cohort
        self._key = key
        self._path = path
        self._log = log
        self._ops_keys = tuple(ops_keys)
        self._unreached: dict[str, HighWaterMark] = {}
        """By stopped stream the mark that its ledger does not reach: it stays in the file and on the broker."""
        for stream, mark in read_marks(path).items() if path is not None else ():
            self._compare(db, stream, mark)
        self.write(db)  # the last calibrator may have been killed after a debit and before it wrote the mark

    def check_broker(self, db: Connection, stream: str, payload: bytes) -> str | None:
        """Compare the ledger with a mark that the broker retained: why the stream stops now, None if it does not.

        Rejected unless the mark carries our seal.
        """
        state = decode(LedgerState, payload)
        if state.head is None or state.seal is None:
            raise Rejected(Reason.BAD_SIGNATURE, "the ledger's head is not sealed")
        mark = HighWaterMark(state.entries, state.head)
        if not self._key.public.sealed(mark.text(self._cohort, stream), state.seal):
            raise Rejected(Reason.BAD_SIGNATURE, "the seal is not ours")
        why = self._compare(db, stream, mark)
        if why is not None:
            self.write(db)  # `hushmq ledger reconcile` reads there what has stopped the stream
        return why

    def resume(self, db: Connection) -> list[str]:
        """Streams that were stopped and go on, because ops have signed what was lost and it is charged."""
        found = [
            stream
            for stream, mark in self._unreached.items()
            if contradiction(db, stream, mark, self._ops_keys) is None
        ]
        for stream in found:
            del self.stopped[stream], self._unreached[stream]
            self._log.warning("ledger_reconciled", stream=stream)
        if found:
            self.write(db)
        return found

    def _compare(self, db: Connection, stream: str, mark: HighWaterMark) -> str | None:
        """Stop a stream whose ledger does not reach the mark: why, if that is new."""
        why = contradiction(db, stream, mark, self._ops_keys)
        if why is not None and mark.entries >= self._unreached.get(stream, mark).entries:
            self._unreached[stream] = mark
        if why is None or stream in self.stopped:
            return None
        self.stopped[stream] = why
        self._log.error("ledger_behind", stream=stream, why=why)
        return why

    def write(self, db: Connection) -> None:
        """Bring the file up to date with the ledger; of a stopped stream it keeps the mark that stopped it."""
        if self._path is not None:
            streams = db.execute(select(ledger.c.stream).distinct()).scalars().all()
            reached = {stream: mark_of(db, stream) for stream in streams if stream not in self.stopped}
            write_marks(self._path, self._unreached | reached)

    def sealed(self, db: Connection, stream: str) -> Sealed:
        """The ledger's mark, sealed; where the ledger is behind, the mark that it does not reach, which so stays."""
        mark = self._unreached.get(stream) or mark_of(db, stream)
        return Sealed(mark.entries, mark.head, self._key.seal(mark.text(self._cohort, stream)))
