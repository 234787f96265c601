"""The share of every stream under each policy followed, and the least one that concerns a window.

A window may reach back behind a change of the policy. What the streams of its account released about those ticks kept
to the shares of that time, and the shares at one tick must not add up to more than 1 (docs/theory-world.md, Theorem
21): so a stream whose share has risen since, because another left the account, releases only windows begun since.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, delete, insert, select

from hushmq.broker.contract.account_share import PricedStream
from hushmq.calibrator.store.tables import stream_share


def write_shares(db: Connection, priced: Mapping[str, PricedStream], version: int, now: float) -> None:
    """Record the shares under a policy that is followed from now on; another calibrator may have done so before."""
    db.execute(delete(stream_share).where(stream_share.c.policy == version))
    for name, one in priced.items():
        tick = int(now * 1000) // one.policy.stride_ms
        share = one.policy.tilt_share
        db.execute(insert(stream_share).values(stream=name, policy=version, tick=tick, share=share))


def least_share(db: Connection, stream: str, first: int) -> float:
    """The least share of the stream at any tick from `first` on; 1 where none is recorded."""
    rows = db.execute(
        select(stream_share.c.tick, stream_share.c.share)
        .where(stream_share.c.stream == stream)
        .order_by(stream_share.c.policy.desc())
    )
    least = 1.0
    for row in rows:
        least = min(least, row.share)
        if row.tick <= first:
            break
    return least
