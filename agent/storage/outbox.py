"""The outbox: perturbed batches on disk, until the calibrator has counted them.

SQLite, WAL, synchronous=FULL; one transaction per beat carries everything that beat changes (new batches, the
watermark, what was seen, what was dropped, the counters), so a beat costs one fsync of the log. In every
committed state, per stream and in ticks,

    sampled = counted + buffered + dropped.

Drop policy: when the waiting batches exceed the allowed size or age, the oldest is deleted first. A batch takes its
bytes plus OVERHEAD; one commit deletes at most AT_ONCE batches, the next one continues. A dropped batch may have been
counted already; its ticks are recorded as lost, and no longer as dropped once `seen` shows that they were counted.
A release made on the device is stored in the same transaction, as the bytes that will be sent, before they leave;
its window is then marked as released for good (agent/storage/outbox_releases.py).
A corrupt file is renamed, never deleted; watermark and counters are restored from the mark
(agent/storage/outbox_mark.py), and the batches in the file are counted as dropped.
A file of an older version is upgraded when it is opened (agent/storage/outbox_versions.py).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hushmq.agent.storage.outbox_balance import LOST_RUNS, OVERHEAD, Draft, StreamBalance
from hushmq.agent.storage.outbox_mark import RESERVE_MS, Mark, StreamMark
from hushmq.agent.storage.outbox_releases import MadeRelease, ReleaseKey, StoredReleases
from hushmq.agent.storage.outbox_versions import STEPS, upgrade
from hushmq.broker.contract.messages import Counted
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.tick_runs import TickRuns

AT_ONCE = 4096
"""Maximum number of batches that one commit deletes, to bound the time and memory of a beat."""

NO_LIMIT = 2**63 - 1

PATIENCE_S = 1.0
"""Seconds to wait for another process that has locked the file, such as a backup."""


class NotStoredError(Exception):
    """Raised when a beat cannot be written: nothing of it was stored, and nothing of it will be sent."""

    def __init__(self, error: sqlite3.Error) -> None:
        super().__init__(str(error))
        self.disk_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        """Whether the disk is full; else the file is locked by another process, or the disk fails."""


@dataclass(frozen=True, slots=True)
class MadeBatch:
    """A new batch: its stream and ticks, and the bytes to send, identical each time."""

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
        """The new path of a corrupt outbox, if one was found."""
        self.backup: Path | None = None
        """Where the outbox from before its upgrade is, if one was rewritten."""
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
        self.backup = upgrade(self._db, self._path, STEPS) or self.backup
        self.balances: dict[str, StreamBalance] = {
            name: StreamBalance(period_ms, watermark, sampled, dropped)
            for name, period_ms, watermark, sampled, dropped in self._db.execute("SELECT * FROM stream")
        }
        for stream, ticks in self._db.execute(
            "SELECT stream, sum(last - first + 1) FROM batch GROUP BY stream"
        ):
            self.balances[stream].buffered = ticks
            self.balances[stream].waiting = TickRuns(self._newest(stream))
        for stream, first, last in self._db.execute("SELECT stream, first, last FROM lost"):
            self.balances[stream].lost.add(first, last)
        self.releases = StoredReleases.read(self._db)
        self._seen: dict[str, Counted] = {}
        """Counted ticks of which not all batches are deleted yet."""
        (self.bytes,) = self._db.execute(
            "SELECT coalesce(sum(length(payload) + ?), 0) FROM batch", (OVERHEAD,)
        ).fetchone()
        self._catch_up()
        self._write_mark()

    def _catch_up(self) -> None:
        """Bring a new file, or one older than the mark, up to the mark; waiting ticks that it lacks are lost."""
        draft = Draft(self.balances)
        for name, mark in self._marked.items():
            old = self.balances.get(name)
            if old is not None and old.watermark >= mark.watermark:
                continue
            balance = draft.balance(name, mark.period_ms)
            for first, last in mark.waiting:
                balance.lost.add(first, last)
            for first, last in self._db.execute("SELECT first, last FROM batch WHERE stream = ?", (name,)):
                balance.lost.remove(first, last)
            balance.watermark, balance.sampled = mark.reserved, mark.sampled
            balance.dropped = mark.dropped + max(0, mark.buffered - balance.buffered)
        if draft.touched:
            with self._transaction():
                self._save(draft)
            draft.apply(self.balances)

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
        """Rename the corrupt file and start a new one from the mark."""
        self._db.close()
        number = 1
        while (renamed := self._path.with_name(f"outbox.corrupt-{number}.db")).exists():
            number += 1
        for suffix in ("", "-wal", "-shm"):
            part = Path(f"{self._path}{suffix}")
            if part.exists():
                part.rename(f"{renamed}{suffix}")
        self.set_aside = renamed
        self._open()

    def commit(
        self,
        made: Sequence[MadeBatch],
        *,
        periods: Mapping[str, int],
        seen: Mapping[str, Counted],
        now_ms: int,
        releases: Sequence[MadeRelease] = (),
        delivered: Sequence[ReleaseKey] = (),
    ) -> None:
        """Commit one beat in one transaction: add what was made, delete what was seen, drop what exceeds the limits.

        `periods` holds the period of each stream in `made`. Raises NotStoredError when the disk is full or
        the file locked, and sqlite3.DatabaseError when the file is corrupt: call `recover` then.
        """
        draft = Draft(self.balances)
        seen = self._seen | dict(seen)
        try:
            with self._transaction():
                for batch in made:
                    self._add(draft, batch, periods[batch.stream], now_ms)
                left = {
                    stream: seen[stream]
                    for stream in seen.keys() & self.balances.keys()
                    if not self._forget(draft, stream, seen[stream])
                }
                self._drop(draft, now_ms)
                self._save(draft)
                stored = self.releases.save(self._db, releases, delivered)
        except sqlite3.OperationalError as error:
            raise NotStoredError(error) from None
        self.releases, self._seen = stored, left
        if draft.touched:
            draft.apply(self.balances)
            self.bytes += draft.bytes
            self._write_mark()

    def give_up(self, stream: str, highest: int, period_ms: int) -> int:
        """Use no tick up to `highest` any more, and drop waiting batches and releases of such ticks.

        Returns the number of ticks in the batches. Somebody else has published them under this device's name: an
        older copy of this folder, or a newer one.
        """
        draft = Draft(self.balances)
        balance = draft.balance(stream, period_ms)
        balance.watermark = max(balance.watermark, highest)
        dropped = 0
        with self._transaction():
            rows = self._db.execute(
                "SELECT id, first, last, length(payload) FROM batch WHERE stream = ? AND first <= ?",
                (stream, highest),
            ).fetchall()
            for id_, first, last, size in rows:
                self._db.execute("DELETE FROM batch WHERE id = ?", (id_,))
                draft.leave(stream, first, last, size)
                balance.lost.add(first, last)
                dropped += last - first + 1
            balance.dropped += dropped
            gone = [key for key in self.releases.unsent if key[0] == stream and key[2] <= highest]
            releases = self.releases.save(self._db, [], gone)
            self._save(draft)
        draft.apply(self.balances)
        self.releases = releases
        self.bytes += draft.bytes
        self._write_mark()
        return dropped

    def page(self, after: int, limit: int, *, upto: int = NO_LIMIT) -> list[Waiting]:
        """The next waiting batches after the one with this id, up to `upto`, in the order in which they were made."""
        rows = self._db.execute(
            "SELECT id, stream, payload FROM batch WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
            (after, upto, limit),
        )
        return [Waiting(*row) for row in rows]

    @property
    def newest(self) -> int:
        """The id of the batch that was made last; 0 if none waits."""
        found: int = self._db.execute("SELECT coalesce(max(id), 0) FROM batch").fetchone()[0]
        return found

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

    def _add(self, draft: Draft, batch: MadeBatch, period_ms: int, now_ms: int) -> None:
        balance = draft.balance(batch.stream, period_ms)
        if batch.first <= balance.watermark:
            raise RuntimeError("a used tick was about to be used again")
        self._db.execute(
            "INSERT INTO batch (stream, first, last, made_ms, payload) VALUES (?, ?, ?, ?, ?)",
            (batch.stream, batch.first, batch.last, now_ms, batch.payload),
        )
        draft.arrive(batch.stream, batch.first, batch.last, len(batch.payload))
        balance.watermark = batch.last
        balance.sampled += batch.last - batch.first + 1

    def _forget(self, draft: Draft, stream: str, counted: Counted) -> bool:
        """Delete the batches of which every tick is counted, and remove counted ticks from the lost ones.

        Returns False if there may be more to delete.
        """
        found = TickRuns([(0, counted.highest)])
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
                draft.balance(stream)
                draft.leave(stream, first, last, size)
            limit -= len(rows)
            if not limit:
                break
        if self.balances[stream].lost:
            balance = draft.balance(stream)
            balance.dropped -= sum(balance.lost.remove(*run) for run in found)
        return limit > 0

    def _drop(self, draft: Draft, now_ms: int) -> None:
        """Drop the oldest batches until size and age are within their limits."""
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
            balance = draft.balance(stream)
            balance.lost.add(first, last)
            balance.dropped += last - first + 1

    def _save(self, draft: Draft) -> None:
        for name, balance in draft.touched.items():
            self._db.execute(
                "INSERT OR REPLACE INTO stream VALUES (?, ?, ?, ?, ?)",
                (name, balance.period_ms, balance.watermark, balance.sampled, balance.dropped),
            )
            balance.lost.keep_newest(LOST_RUNS)
            old, new = set(self.balances[name].lost if name in self.balances else ()), set(balance.lost)
            self._db.executemany(
                "DELETE FROM lost WHERE stream = ? AND first = ?", [(name, run[0]) for run in old - new]
            )
            self._db.executemany("INSERT INTO lost VALUES (?, ?, ?)", [(name, *run) for run in new - old])

    def _write_mark(self) -> None:
        self._marked = {
            name: StreamMark(
                period_ms=balance.period_ms,
                watermark=balance.watermark,
                reserved=self._mark.reserve(name, balance.period_ms, balance.watermark),
                sampled=balance.sampled,
                dropped=balance.dropped,
                buffered=balance.buffered,
                waiting=tuple(balance.waiting),
            )
            for name, balance in self.balances.items()
        }
        try:
            self._mark.write(self._marked)
            self.mark_error = None
        except OSError as error:
            # The outbox itself is written; the mark follows with the next commit.
            self.mark_error = error.strerror
