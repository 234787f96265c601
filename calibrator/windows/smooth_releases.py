"""Smoothed frequencies of releases that were just drawn, from the stored bytes of earlier ones: post-processing."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select

from hushmq.broker.contract.messages import Release
from hushmq.broker.contract.release_smoothing import LONGEST, ReleasedShares, smooth
from hushmq.broker.contract.topics import Topics
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store.tables import ledger, release

_NEWEST = (
    select(ledger.c.id)
    .where(
        ledger.c.stream == bindparam("stream_"),
        ledger.c.window == bindparam("window_"),
        ledger.c.scope == bindparam("scope_"),
        ledger.c.first >= bindparam("since_"),
    )
    .order_by(ledger.c.id.desc())
    .limit(LONGEST)
)
"""The newest windows of a sequence, with the one that is being closed."""
_EARLIER = select(release.c.topic, release.c.payload).where(release.c.entry.in_(_NEWEST))


def smooth_releases(
    db: Connection, span: Span, releases: Sequence[Release], topics: Topics, *, since: int
) -> list[Release]:
    """The window's releases with smoothed frequencies. Windows that began before tick `since` were of another epoch.

    All earlier releases of the sequence are read at once: those of a device are the ones on its topic.
    """
    where = {"stream_": span.stream, "window_": span.window, "scope_": span.scope, "since_": since}
    found: dict[str, list[ReleasedShares]] = {
        topics.release(one.stream, one.window, one.scope): [] for one in releases
    }
    for topic, payload in db.execute(_EARLIER, where):
        history = found.get(topic)
        shares = None if history is None else ReleasedShares.stored(payload)
        if history is not None and shares is not None and shares.first >= since:
            history.append(shares)
    return smooth(releases, list(found.values()))
