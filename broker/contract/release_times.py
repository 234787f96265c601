"""When a window was, in UTC: ticks are counted from the beginning of 1970, by the period of their stream."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypedDict

LATEST_MS = 253_370_764_800_000
"""The beginning of the year 9999: later instants have no date."""


class ReleaseTimes(TypedDict):
    """The fields of a release that say when its window was."""

    period_ms: int
    start: str | None
    end: str | None


def release_times(first: int, last: int, period_ms: int) -> ReleaseTimes:
    """Return the period, and the instants at which a window began and ended; none where they have no date."""
    return {"period_ms": period_ms, "start": _utc(first * period_ms), "end": _utc((last + 1) * period_ms)}


def _utc(milliseconds: int) -> str | None:
    if milliseconds >= LATEST_MS:
        return None
    whole = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"
