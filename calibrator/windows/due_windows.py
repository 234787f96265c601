"""Which windows are due: over for longer than their grace, not closed yet, and with counted states in them."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store.tables import batch
from hushmq.calibrator.windows.closed_windows import next_open_tick

LONGEST_BATCH = 65_536
"""Ticks in a batch at most: how far before a window a batch that reaches into it can begin."""


def due_windows(db: Connection, stream: str, policy: StreamPolicy, *, through: int) -> list[Span]:
    """Windows that end at or before tick `through` and hold data, oldest first."""
    spans = []
    for name, window in policy.windows.items():
        end = (through + 1) // window.ticks * window.ticks
        for scope in window.scopes:
            start = next_open_tick(db, stream, name, scope)
            if end <= start:
                continue
            rows = db.execute(
                select(batch.c.first, batch.c.last).where(
                    batch.c.stream == stream,
                    batch.c.first >= start - LONGEST_BATCH,
                    batch.c.last >= start,
                    batch.c.first < end,
                )
            )
            numbers = {
                number
                for row in rows
                for number in range(
                    max(row.first, start) // window.ticks, (min(row.last, end - 1)) // window.ticks + 1
                )
            }
            spans += [
                Span(stream, name, n * window.ticks, (n + 1) * window.ticks - 1, scope) for n in numbers
            ]
    return sorted(spans, key=lambda span: (span.last, span.first, span.window, span.scope))


@dataclass(frozen=True, slots=True)
class Searched:
    """A search for due windows: it covered all that end by tick `before`; the next one ends at `next_end`."""

    before: int
    next_end: int | None


@dataclass(slots=True)
class WindowSchedule:
    """Which streams can have due windows, so that an idle turn asks the database nothing.

    Those that were not searched yet, those of which another window has ended since, and those of which something
    arrived for a window that was searched and may have been empty.
    """

    _searched: dict[str, Searched] = field(default_factory=dict)

    def can_be_due(self, stream: str, *, through: int) -> bool:
        """Whether the database must be asked for windows that end at or before tick `through`."""
        last = self._searched.get(stream)
        return last is None or (last.next_end is not None and through + 1 >= last.next_end)

    def searched(self, stream: str, policy: StreamPolicy, *, through: int) -> None:
        """All windows of the stream that end at or before tick `through` are closed or empty."""
        lengths = [window.ticks for window in policy.windows.values()]
        lengths += [window.ticks for window in policy.device_windows.values()]
        ends = [(through + 1) // ticks * ticks for ticks in lengths]
        self._searched[stream] = Searched(
            before=max(ends, default=0),
            next_end=min((end + ticks for end, ticks in zip(ends, lengths, strict=True)), default=None),
        )

    def arrived(self, stream: str, first: int) -> None:
        """States or releases from tick `first` on have arrived."""
        last = self._searched.get(stream)
        if last is not None and first < last.before:
            del self._searched[stream]

    def policy_changed(self) -> None:
        """The windows of a new policy have not been searched for."""
        self._searched.clear()
