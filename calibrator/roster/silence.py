"""Silence: a device of which nothing was counted for long leaves the roster; its next batch brings it back.

Until then its ticks are filled. The limit is in the schedule's own terms, so that being off for less than it shows
nowhere; being off for longer does.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, func, select, update

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.calibrator_config import RosterSection
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store.tables import accounted, roster


def silence_limit(policy: StreamPolicy, limits: RosterSection) -> int:
    """The ticks after the last counted one at which a device leaves: so many of the stream's longest windows.

    It is no less than what devices fill themselves after an absence.
    """
    longest = max(map(policy.strides_of, policy.windows.values()))
    return max(limits.silent_windows * longest, policy.fill_ticks)


def end_silent(db: Connection, span: Span, devices: Collection[str], *, limit: int) -> list[str]:
    """End the membership of those of these devices of which nothing was counted for `limit` ticks, and return them."""
    if not devices:
        return []
    rows = db.execute(
        select(accounted.c.device, func.max(accounted.c.last))
        .where(accounted.c.stream == span.stream, accounted.c.device.in_(sorted(devices)))
        .group_by(accounted.c.device)
    )
    gone = sorted(device for device, last in rows if last <= span.last - limit)
    for device in gone:
        here = (roster.c.stream == span.stream) & (roster.c.device == device) & roster.c.until.is_(None)
        db.execute(update(roster).where(here).values(until=span.last + 1))
    return gone
