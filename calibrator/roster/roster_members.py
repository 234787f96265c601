"""The roster of a stream: the devices that its windows are about, whether their ticks arrive or not.

Which devices a window counts is settled when it closes, by first batches and charged statistics: those that are members
at its first tick. So how many devices and ticks a release is about does not
depend on what arrived of them (docs/theory-world.md, Theorem 12).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select

from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store.tables import roster

# Built once: SQLAlchemy takes longer to build a statement than SQLite to run it.
_ROSTER = select(roster).where(roster.c.stream == bindparam("stream_"))


@dataclass(frozen=True, slots=True)
class Membership:
    """A device is a member in windows that begin at tick `since` or later, and before `until` if that is settled."""

    device: str
    since: int
    until: int | None = None
    left_out: str | None = None
    """Why it is left out of every window that closes from now on; None if it is not."""

    def counts_from(self, first: int) -> bool:
        """Whether a window that begins at this tick counts the device."""
        return self.left_out is None and self.since <= first and (self.until is None or first < self.until)


def read_roster(db: Connection, stream: str) -> list[Membership]:
    """Every membership that a window may still be about, and the devices left out."""
    return [
        Membership(row.device, row.since, row.until, row.left_out)
        for row in db.execute(_ROSTER, {"stream_": stream})
    ]


def members(found: Iterable[Membership], span: Span) -> list[str]:
    """The devices that the window counts, sorted."""
    return sorted({one.device for one in found if one.counts_from(span.first)})


def member_ticks(found: Iterable[Membership]) -> list[tuple[int, int | None]]:
    """Where windows can begin: disjoint stretches of ticks with a member, the end excluded, None for no end."""
    merged: list[tuple[int, int | None]] = []
    for one in sorted((one for one in found if one.left_out is None), key=lambda one: one.since):
        if merged and (merged[-1][1] is None or one.since <= merged[-1][1]):
            first, end = merged[-1]
            merged[-1] = first, None if end is None or one.until is None else max(end, one.until)
        else:
            merged.append((one.since, one.until))
    return merged


def beginnings(
    stretches: Sequence[tuple[int, int | None]], ticks: int, *, start: int, end: int, most: int
) -> list[int]:
    """First ticks of the windows of this length within start … end − 1 that begin in one of the stretches."""
    found: list[int] = []
    for low, high in stretches:
        first = -(-max(low, start) // ticks) * ticks
        stop = end if high is None else min(end, high)
        while len(found) < most and first < stop and first + ticks <= end:
            if not found or found[-1] < first:
                found.append(first)
            first += ticks
    return found
