"""Releases as a series over time, as they were published, from the stored bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from hushmq.calibrator.store import tables as store

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ReleasePoint:
    """One release, as much of it as is drawn."""

    entry: int
    first: int
    last: int
    devices: int
    states: tuple[str, ...]
    frequencies: tuple[float, ...]
    intervals: tuple[Interval, ...]
    smoothed: tuple[float, ...] | None
    smoothed_intervals: tuple[Interval, ...] | None
    scale: float
    loss: float
    budget: float


def read_series(db: Connection, topic: str, most: int, drawn: int) -> tuple[list[ReleasePoint], int]:
    """Of the last releases of a topic every second, third and so on, at most `drawn` with the newest; and their number.

    The oldest comes first.
    """
    ours = store.release.c.topic == topic, store.release.c.sent
    newest = select(store.release.c.entry).where(*ours).order_by(store.release.c.entry.desc()).limit(most)
    entries = db.execute(newest).scalars().all()
    step = max(1, -(-len(entries) // drawn))
    chosen = select(store.release.c.payload).where(store.release.c.entry.in_(entries[::step]))
    payloads = db.execute(chosen.order_by(store.release.c.entry)).scalars()
    return [release_point(one) for one in payloads], len(entries)


def last_payloads(db: Connection, topic: str, most: int | None) -> list[bytes]:
    """The exact bytes of the last releases of a topic, the oldest first; of all without `most`."""
    rows = db.execute(_published(topic).order_by(store.release.c.entry.desc()).limit(most))
    return [row.payload for row in rows][::-1]


def payloads_between(db: Connection, topic: str, first: int, last: int) -> list[bytes]:
    """The exact bytes of the releases of a topic whose ledger entries are within these, the oldest first."""
    within = store.release.c.entry.between(first, last)
    return list(db.execute(_published(topic).where(within).order_by(store.release.c.entry)).scalars())


def _published(topic: str) -> Select[Any]:
    """Only what the broker has acknowledged: the rest is not public yet."""
    return select(store.release.c.payload).where(store.release.c.topic == topic, store.release.c.sent)


def release_point(payload: bytes) -> ReleasePoint:
    """What is drawn of a stored release."""
    tree = json.loads(payload)
    smoothed, around = tree.get("smoothed"), tree.get("smoothed_intervals")
    return ReleasePoint(
        entry=tree["entry"],
        first=tree["first"],
        last=tree["last"],
        devices=tree["devices"],
        states=tuple(tree["states"]),
        frequencies=tuple(tree["frequencies"]),
        intervals=tuple((low, high) for low, high in tree["intervals"]),
        smoothed=None if smoothed is None else tuple(smoothed),
        smoothed_intervals=None if around is None else tuple((low, high) for low, high in around),
        scale=tree["scale"],
        loss=tree["loss"],
        budget=tree["budget"],
    )


def ledger_rows(
    db: Connection, *, stream: str | None, before: int | None, most: int | None
) -> list[Row[Any]]:
    """Entries of the ledger, the newest first: of one stream or all, older than an entry, at most so many."""
    query = select(store.ledger).order_by(store.ledger.c.id.desc()).limit(most)
    if stream is not None:
        query = query.where(store.ledger.c.stream == stream)
    if before is not None:
        query = query.where(store.ledger.c.id < before)
    return list(db.execute(query))


def setting_rows(db: Connection, stream: str) -> list[Row[Any]]:
    """The cohort's settings of a stream, the oldest first: version, policy, first tick and signed bytes."""
    columns = (
        store.setting.c.version,
        store.setting.c.policy,
        store.setting.c.issued,
        store.setting.c.payload,
    )
    query = select(*columns).where(store.setting.c.stream == stream, store.setting.c.device.is_(None))
    return list(db.execute(query.order_by(store.setting.c.version)))
