"""Reads the releases that a calibrator has stored or archived, oldest first."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, select

from hushmq.broker.contract.messages import Release, decode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Rejected
from hushmq.broker.contract.release_times import release_times
from hushmq.broker.contract.signature import Signed
from hushmq.calibrator.ledger.archived_releases import Archive, all_releases
from hushmq.calibrator.store.tables import policy, superseded_policy


def stored_releases(
    db: Connection,
    *,
    stream: str | None = None,
    window: str | None = None,
    scope: str | None = None,
    archived: Archive | None = None,
) -> Iterator[Release]:
    """Yield the releases of a stream, window and scope, or of all; each with its times, also where it states none.

    With those in an archive where it is given; its files must have been found right.
    """
    periods = _periods(db)
    for row in all_releases(db, archived):
        try:
            one = decode(Release, row.payload)
        except Rejected:
            continue  # of a version that nobody reads any more
        if (stream or one.stream, window or one.window, scope or one.scope) != (
            one.stream,
            one.window,
            one.scope,
        ):
            continue
        if one.period_ms is None and one.stream in periods:
            # A stream's period never changes: what an older release does not state is known.
            one = one.model_copy(update=dict(release_times(one.first, one.last, periods[one.stream])))
        yield one


def _periods(db: Connection) -> dict[str, int]:
    found: dict[str, int] = {}
    for table in (superseded_policy, policy):
        for row in db.execute(select(table.c.payload).order_by(table.c.version)):
            try:
                message = decode(Signed[Policy], row.payload).message
            except Rejected:
                continue
            found |= {name: one.stride_ms for name, one in message.streams.items()}
    return found
