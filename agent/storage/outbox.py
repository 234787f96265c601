"""What waits to be sent: already perturbed bytes only, on disk, until the calibrator has counted them.

SQLite, WAL, synchronous=FULL; one transaction per beat carries everything that beat changes (new batches, the
watermark, what was seen, what was dropped, the counters), so a beat costs one fsync of the log. In every
committed state, per stream and in ticks,

    sampled = forgotten because counted + buffered + dropped.

Drop policy: when the waiting batches exceed the size or age allowed, the oldest goes first. A batch counts with its
bytes and OVERHEAD for what the file keeps about it; one commit lets go of at most AT_ONCE, more follow with the next.
A dropped batch may have been counted without our knowing yet; its ticks are remembered as lost, and when `seen` shows
that they were counted after all, they are no longer among the dropped.
A release made on the device is stored in the same transaction, as the bytes that will be sent, before they leave;
its window is then marked as released for good. At most RELEASES of a window wait to be sent, the oldest goes first.
A corrupt file is set aside, never deleted; watermark and counters come back from the mark
(agent/storage/outbox_mark.py), what waited in the file is lost and counted as dropped.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hushmq.agent.device_windows import MadeRelease
from hushmq.agent.storage.outbox_balance import LOST_RUNS, OVERHEAD, Books, Draft
from hushmq.agent.storage.outbox_mark import RESERVE_MS, Mark, StreamMark
from hushmq.broker.contract.messages import Counted
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.tick_runs import Runs

AT_ONCE = 4096
"""How many batches one commit forgets, or drops, at most: time and memory of a beat stay bounded."""

PATIENCE_S = 1.0
"""How long to wait for somebody else who holds the file, a backup perhaps."""

RELEASES = 200
"""How many releases of one window wait at most."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS stream (
  name TEXT PRIMARY KEY, period_ms INTEGER NOT NULL, watermark INTEGER NOT NULL,
  sampled INTEGER NOT NULL, dropped INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batch (
  id INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  made_ms INTEGER NOT NULL, payload BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS batch_by_tick ON batch (stream, last);
CREATE TABLE IF NOT EXISTS release (
  stream TEXT NOT NULL, window TEXT NOT NULL, first INTEGER NOT NULL, entry INTEGER NOT NULL, payload BLOB,
  PRIMARY KEY (stream, window, first)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lost (
  stream TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (stream, first)
) WITHOUT ROWID;
"""


class DiskFullError(Exception):
    """Raised when the disk takes no more: nothing of the beat was stored, and nothing of it will be sent."""


@dataclass(frozen=True, slots=True)
class Made:
    """A batch just made: its stream and ticks, and the bytes that will be sent, the same ones each time."""

    stream: str
    first: int
    last: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Waiting:
    """A batch in the outbox."""

    id: int
    stream: str
    payload: bytes


class Outbox:
    """The outbox of one device. Used from one thread."""

    def __init__(self, folder: Path, *, max_bytes: int, max_age_s: int, reserve_ms: int = RESERVE_MS) -> None:
        self._path = folder / "outbox.db"
        self._max_bytes = max_bytes
        self._max_age_ms = max_age_s * 1000
        self._mark = Mark(folder, reserve_ms=reserve_ms)
        self._marked = self._mark.read()
        self.set_aside: Path | None = None
        """Where a corrupt outbox was put, if one was found."""
        self.mark_error: str | None = None
        """Why the mark could not be written after the last commit."""
        try:
            self._open()
        except sqlite3.OperationalError as error:
            raise Problem(f"folder: {self._path}: {error}") from None
        except sqlite3.DatabaseError:
            self.recover()

    def _open(self) -> None:
        self._db = sqlite3.connect(
            self._path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False
        )
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA cache_size = -256")
        if self._db.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("quick_check")
        self._db.executescript(SCHEMA)
        self.books: dict[str, Books] = {
            name: Books(period_ms, watermark, sampled, dropped)
            for name, period_ms, watermark, sampled, dropped in self._db.execute("SELECT * FROM stream")
        }
        for stream, ticks in self._db.execute(
            "SELECT stream, sum(last - first + 1) FROM batch GROUP BY stream"
        ):
            self.books[stream].buffered = ticks
            self.books[stream].waiting = Runs(self._newest(stream))
        for stream, first, last in self._db.execute("SELECT stream, first, last FROM lost"):
            self.books[stream].lost.add(first, last)
        self.released: dict[tuple[str, str], tuple[int, int]] = {}
        """Per stream and window the first tick of the last window released, and how many there were."""
        self.unsent: dict[tuple[str, str, int], bytes] = {}
        """Releases whose arrival at the broker is not known."""
        for stream, window, first, entry, payload in self._db.execute("SELECT * FROM release ORDER BY first"):
            self.released[stream, window] = (first, entry)
            if payload is not None:
                self.unsent[stream, window, first] = payload
        self._seen: dict[str, Counted] = {}
        """What was seen and could not all be forgotten at once."""
        (self.bytes,) = self._db.execute(
            "SELECT coalesce(sum(length(payload) + ?), 0) FROM batch", (OVERHEAD,)
        ).fetchone()
        self._catch_up()
        self._write_mark()

    def _catch_up(self) -> None:
        """Bring a file that is new, or older than the mark, up to the mark: what it does not hold is lost."""
        draft = Draft(self.books)
        for name, mark in self._marked.items():
            old = self.books.get(name)
            if old is not None and old.watermark >= mark.watermark:
                continue
            book = draft.book(name, mark.period_ms)
            for first, last in mark.waiting:
                book.lost.add(first, last)
            for first, last in self._db.execute("SELECT first, last FROM batch WHERE stream = ?", (name,)):
                book.lost.remove(first, last)
            book.watermark, book.sampled = mark.reserved, mark.sampled
            book.dropped = mark.dropped + max(0, mark.buffered - book.buffered)
        if draft.touched:
            with self._transaction():
                self._save(draft)
            draft.apply(self.books)

    def _newest(self, stream: str) -> list[tuple[int, int]]:
        """The newest runs of a stream's waiting ticks."""
        runs: list[tuple[int, int]] = []
        rows = self._db.execute(
            "SELECT first, last FROM batch WHERE stream = ? ORDER BY last DESC", (stream,)
        )
        for first, last in rows:
            if runs and runs[-1][0] == last + 1:
                runs[-1] = (first, runs[-1][1])
            elif len(runs) == LOST_RUNS:
                break
            else:
                runs.append((first, last))
        return runs

    def recover(self) -> None:
        """Set the corrupt file aside and begin a new one from the mark."""
        self._db.close()
        number = 1
        while (aside := self._path.with_name(f"outbox.corrupt-{number}.db")).exists():
            number += 1
        for suffix in ("", "-wal", "-shm"):
            part = Path(f"{self._path}{suffix}")
            if part.exists():
                part.rename(f"{aside}{suffix}")
        self.set_aside = aside
        self._open()

    def commit(
        self,
        made: Sequence[Made],
        *,
        periods: Mapping[str, int],
        seen: Mapping[str, Counted],
        now_ms: int,
        releases: Sequence[MadeRelease] = (),
        delivered: Sequence[tuple[str, str, int]] = (),
    ) -> None:
        """One beat, all or nothing: add what was made, forget what was seen, drop what is too much or too old.

        `periods` gives the period of each stream in `made`. DiskFullError when the disk takes no more;
        sqlite3.DatabaseError when the file is corrupt, and then `recover` is what helps.
        """
        draft = Draft(self.books)
        seen = self._seen | dict(seen)
        try:
            with self._transaction():
                for batch in made:
                    self._add(draft, batch, periods[batch.stream], now_ms)
                left = {
                    stream: seen[stream]
                    for stream in seen.keys() & self.books.keys()
                    if not self._forget(draft, stream, seen[stream])
                }
                self._drop(draft, now_ms)
                self._save(draft)
                released, unsent = self._save_releases(releases, delivered)
        except sqlite3.OperationalError as error:
            raise DiskFullError(str(error)) from None
        self.released, self.unsent, self._seen = released, unsent, left
        if draft.touched:
            draft.apply(self.books)
            self.bytes += draft.bytes
            self._write_mark()

    def page(self, after: int, limit: int) -> list[Waiting]:
        """The next waiting batches in the order they were made, after the one with that id."""
        rows = self._db.execute(
            "SELECT id, stream, payload FROM batch WHERE id > ? ORDER BY id LIMIT ?", (after, limit)
        )
        return [Waiting(*row) for row in rows]

    @property
    def oldest(self) -> int | None:
        """The id of the batch that has waited longest."""
        found: int | None = self._db.execute("SELECT min(id) FROM batch").fetchone()[0]
        return found

    def close(self) -> None:
        """Close the file; the mark then reserves nothing beyond the watermark."""
        self._db.close()
        self._mark.release()
        self._write_mark()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            # SQLite has rolled back by itself after a full disk or an I/O error.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _add(self, draft: Draft, batch: Made, period_ms: int, now_ms: int) -> None:
        book = draft.book(batch.stream, period_ms)
        if batch.first <= book.watermark:
            raise RuntimeError("a used tick was about to be used again")
        self._db.execute(
            "INSERT INTO batch (stream, first, last, made_ms, payload) VALUES (?, ?, ?, ?, ?)",
            (batch.stream, batch.first, batch.last, now_ms, batch.payload),
        )
        draft.arrive(batch.stream, batch.first, batch.last, len(batch.payload))
        book.watermark = batch.last
        book.sampled += batch.last - batch.first + 1

    def _forget(self, draft: Draft, stream: str, counted: Counted) -> bool:
        """Delete the batches of which every tick is counted, and take counted ticks out of the lost ones.

        False when there may be more to delete.
        """
        found = Runs([(0, counted.highest)])
        for hole in counted.holes:
            found.remove(*hole)
        limit = AT_ONCE
        for begin, end in found:
            rows = self._db.execute(
                "SELECT id, first, last, length(payload) FROM batch"
                " WHERE stream = ? AND last BETWEEN ? AND ? AND first >= ? LIMIT ?",
                (stream, begin, end, begin, limit),
            ).fetchall()
            for id_, first, last, size in rows:
                self._db.execute("DELETE FROM batch WHERE id = ?", (id_,))
                draft.book(stream)
                draft.leave(stream, first, last, size)
            limit -= len(rows)
            if not limit:
                break
        if self.books[stream].lost:
            book = draft.book(stream)
            book.dropped -= sum(book.lost.remove(*run) for run in found)
        return limit > 0

    def _drop(self, draft: Draft, now_ms: int) -> None:
        """Delete the oldest batches until size and age are within bounds."""
        for _ in range(AT_ONCE):
            row = self._db.execute(
                "SELECT id, stream, first, last, made_ms, length(payload) FROM batch ORDER BY id LIMIT 1"
            ).fetchone()
            if row is None:
                return
            id_, stream, first, last, made_ms, size = row
            if self.bytes + draft.bytes <= self._max_bytes and now_ms - made_ms <= self._max_age_ms:
                return
            self._db.execute("DELETE FROM batch WHERE id = ?", (id_,))
            draft.leave(stream, first, last, size)
            book = draft.book(stream)
            book.lost.add(first, last)
            book.dropped += last - first + 1

    def _save(self, draft: Draft) -> None:
        for name, book in draft.touched.items():
            self._db.execute(
                "INSERT OR REPLACE INTO stream VALUES (?, ?, ?, ?, ?)",
                (name, book.period_ms, book.watermark, book.sampled, book.dropped),
            )
            book.lost.keep_newest(LOST_RUNS)
            old, new = set(self.books[name].lost if name in self.books else ()), set(book.lost)
            self._db.executemany(
                "DELETE FROM lost WHERE stream = ? AND first = ?", [(name, run[0]) for run in old - new]
            )
            self._db.executemany("INSERT INTO lost VALUES (?, ?, ?)", [(name, *run) for run in new - old])

    def _save_releases(
        self, releases: Sequence[MadeRelease], delivered: Sequence[tuple[str, str, int]]
    ) -> tuple[dict[tuple[str, str], tuple[int, int]], dict[tuple[str, str, int], bytes]]:
        """Add releases, let go of delivered ones and of the oldest beyond the bound; `released` and `unsent` then."""
        released, unsent, gone = dict(self.released), dict(self.unsent), list(delivered)
        for made in releases:
            window = (made.stream, made.window)
            first, entry = released.get(window, (-1, 0))
            if made.first <= first:
                raise RuntimeError("a window was about to be released again")
            released[window] = (made.first, entry + 1)
            unsent[*window, made.first] = made.payload
            self._db.execute(
                "INSERT INTO release VALUES (?, ?, ?, ?, ?)", (*window, made.first, entry + 1, made.payload)
            )
            gone += [key for key in unsent if key[:2] == window][:-RELEASES]
        for key in gone:
            unsent.pop(key, None)
            self._db.execute(
                "UPDATE release SET payload = NULL WHERE (stream, window, first) = (?, ?, ?)", key
            )
            # The newest row stays: it is the mark that its window has been released.
            self._db.execute(
                "DELETE FROM release WHERE (stream, window) = (?, ?) AND payload IS NULL AND first < ?",
                (*key[:2], released[key[:2]][0]),
            )
        return released, unsent

    def _write_mark(self) -> None:
        self._marked = {
            name: StreamMark(
                period_ms=book.period_ms,
                watermark=book.watermark,
                reserved=self._mark.reserve(name, book.period_ms, book.watermark),
                sampled=book.sampled,
                dropped=book.dropped,
                buffered=book.buffered,
                waiting=tuple(book.waiting),
            )
            for name, book in self.books.items()
        }
        try:
            self._mark.write(self._marked)
            self.mark_error = None
        except OSError as error:
            # The outbox itself is written; the mark follows with the next commit.
            self.mark_error = error.strerror
