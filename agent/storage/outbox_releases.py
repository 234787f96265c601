"""The device's releases in the outbox: each window is released once, and its bytes are kept until acknowledged."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field

RELEASES = 200
"""Maximum number of waiting releases of one window; the oldest is deleted first."""

ReleaseKey = tuple[str, str, int]
"""Stream, window and first tick."""


@dataclass(frozen=True, slots=True)
class MadeRelease:
    """A new release: its stream, window and first tick, and the bytes to send, identical each time."""

    stream: str
    window: str
    first: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class StoredReleases:
    """The releases as of the last commit."""

    released: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """By stream and window: the first tick of the last one released, and the number released."""
    unsent: dict[ReleaseKey, bytes] = field(default_factory=dict)
    """Releases that the broker has not acknowledged."""

    @classmethod
    def read(cls, db: sqlite3.Connection) -> StoredReleases:
        """The releases in a database."""
        found = cls()
        for stream, window, first, entry, payload in db.execute("SELECT * FROM release ORDER BY first"):
            found.released[stream, window] = (first, entry)
            if payload is not None:
                found.unsent[stream, window, first] = payload
        return found

    def save(
        self, db: sqlite3.Connection, made: Sequence[MadeRelease], delivered: Sequence[ReleaseKey]
    ) -> StoredReleases:
        """Add new releases, delete delivered ones and the oldest beyond the limit, in the caller's transaction.

        Returns what is stored once the transaction is committed. Raises RuntimeError for a window released before.
        """
        released, unsent, gone = dict(self.released), dict(self.unsent), list(delivered)
        for one in made:
            window = (one.stream, one.window)
            first, entry = released.get(window, (None, 0))
            if first is not None and one.first <= first:
                raise RuntimeError("a window was about to be released again")
            released[window] = (one.first, entry + 1)
            unsent[*window, one.first] = one.payload
            db.execute(
                "INSERT INTO release VALUES (?, ?, ?, ?, ?)", (*window, one.first, entry + 1, one.payload)
            )
            gone += [key for key in unsent if key[:2] == window][:-RELEASES]
        for key in gone:
            if unsent.pop(key, None) is None:
                continue  # delivered from an outbox that was found corrupt since
            db.execute("UPDATE release SET payload = NULL WHERE (stream, window, first) = (?, ?, ?)", key)
            # The newest row is kept: it records that its window has been released.
            db.execute(
                "DELETE FROM release WHERE (stream, window) = (?, ?) AND payload IS NULL AND first < ?",
                (*key[:2], released[key[:2]][0]),
            )
        return StoredReleases(released, unsent)
