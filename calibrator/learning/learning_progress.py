"""How far learning has come with a stream, as it is stored."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Literal

from sqlalchemy import Connection, insert, select, update

from hushmq.calibrator.learning.update_schedule import last_update
from hushmq.calibrator.store.tables import learning

Covering = Literal["cover", "report"]
"""What a policy wants done about a misfit."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Windows since the last restart, the misfit at the last theta update, and contradictions so far.

    `persistent_shares` has the share to cover in each band of lags; `undetectable` is the largest excess correlation at
    long lags that the evidence so far would not have shown. A contradiction is a restart, or one or more devices
    whose learned Θ was dropped.
    """

    windows: int = 0
    persistent_shares: tuple[float, ...] = ()
    undetectable: float = 1.0
    contradictions: int = 0

    @property
    def at_last_update(self) -> Progress:
        """The same, with the windows at the last update: the learned Θ is a function of the statistics up to there."""
        return replace(self, windows=last_update(self.windows))

    def to_cover(self, misfit: Covering) -> Progress:
        """The same, without the misfit where the policy wants it reported only."""
        return self if misfit == "cover" else replace(self, persistent_shares=(), undetectable=0.0)


def read_progress(db: Connection, stream: str) -> Progress:
    """The progress of a stream; that of a new one where nothing is stored."""
    row = db.execute(select(learning).where(learning.c.stream == stream)).first()
    if row is None:
        return Progress()
    shares = tuple(json.loads(row.persistent_shares))
    return Progress(row.windows, shares, row.undetectable, row.contradictions)


def write_progress(db: Connection, stream: str, progress: Progress) -> None:
    """Store the progress of a stream."""
    values = {
        "windows": progress.windows,
        "persistent_shares": json.dumps(progress.persistent_shares),
        "undetectable": progress.undetectable,
        "contradictions": progress.contradictions,
    }
    if db.execute(update(learning).where(learning.c.stream == stream).values(**values)).rowcount == 0:
        db.execute(insert(learning).values(stream=stream, **values))
