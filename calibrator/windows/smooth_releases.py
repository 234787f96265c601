"""Smoothed frequencies of releases that were just drawn, from the stored bytes of earlier ones: post-processing."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select

from hushmq.broker.contract.messages import Release
from hushmq.broker.contract.release_smoothing import LONGEST, ReleasedShares, smooth
from hushmq.broker.contract.topics import Topics
from hushmq.calibrator.store.tables import release

_NEWEST = (
    select(release.c.payload)
    .where(release.c.topic == bindparam("topic"))
    .order_by(release.c.entry.desc())
    .limit(LONGEST - 1)
)


def smooth_releases(
    db: Connection, releases: Sequence[Release], topics: Topics, *, since: int
) -> list[Release]:
    """The releases with their smoothed frequencies. Windows that began before tick `since` were of another epoch."""
    return smooth(releases, [_earlier(db, one, topics, since) for one in releases])


def _earlier(db: Connection, message: Release, topics: Topics, since: int) -> list[ReleasedShares]:
    topic = topics.release(message.stream, message.window, message.scope)
    found = (ReleasedShares.stored(row.payload) for row in db.execute(_NEWEST, {"topic": topic}))
    return [one for one in found if one is not None and one.first >= since]
