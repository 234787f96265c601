"""Which windows are due: over for longer than their grace, and not closed yet.

The schedule and the roster say which windows there are, not what arrived: every window that begins while the stream has
a member exists, and closes, also one of which no state came.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import Connection

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.roster.roster_members import beginnings, member_ticks, read_roster
from hushmq.calibrator.windows.closed_windows import begin_sequences, next_open_tick

MOST_AT_ONCE = 64
"""Windows of one stream that one search finds: after a long stop the roster shrinks while they are closed."""


def due_windows(db: Connection, stream: str, policy: StreamPolicy, *, through: int) -> list[Span]:
    """Windows that end at or before tick `through`, oldest first; MOST_AT_ONCE of them if there are more."""
    stretches = member_ticks(read_roster(db, stream))
    if not stretches:
        return []
    begin_sequences(db, stream, policy, at=stretches[0][0])
    spans = [
        Span(stream, name, first, first + policy.strides_of(window) - 1, scope)
        for name, window in policy.windows.items()
        for scope in window.scopes
        for first in beginnings(
            stretches,
            policy.strides_of(window),
            start=next_open_tick(db, stream, name, scope),
            end=through + 1,
            most=MOST_AT_ONCE,
        )
    ]
    spans.sort(key=lambda span: (span.last, span.first, span.window, span.scope))
    return spans[:MOST_AT_ONCE]


@dataclass(frozen=True, slots=True)
class Searched:
    """A search for due windows: it covered all that end by tick `before`; the next one ends at `next_end`."""

    before: int
    next_end: int | None


@dataclass(slots=True)
class WindowSchedule:
    """Which streams can have due windows, so that an idle turn asks the database nothing.

    Those that were not searched yet, those of which another window has ended since, and those of which something
    arrived for a window that was searched: a device may have been admitted for it.
    """

    _searched: dict[str, Searched] = field(default_factory=dict)

    def can_be_due(self, stream: str, *, through: int) -> bool:
        """Whether the database must be asked for windows that end at or before tick `through`."""
        last = self._searched.get(stream)
        return last is None or (last.next_end is not None and through + 1 >= last.next_end)

    def searched(self, stream: str, policy: StreamPolicy, *, through: int) -> None:
        """All windows of the stream that end at or before tick `through` are closed or empty."""
        lengths = [policy.strides_of(window) for window in policy.windows.values()]
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
