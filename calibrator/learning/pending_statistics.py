"""Exact sums of windows that are paid for and wait for their noise, which is drawn once for all of them.

Theorem (docs/theory-accounts.md, A2: one draw for several windows). Let w be the least that any of the windows was
charged. Noise on the sum over them that costs a state w if it is in one of them, and n·w if it is in n, costs no more
than what the state's windows were charged. So m windows together have the noise of one.

What waits is no more than the operator, who has the states, could count anyway. Nothing that is published, pushed or
believed depends on it: `draw` is the only way out, and forgets what it has drawn from in the same transaction.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from hushmq.calibrator.store.tables import pending

Groups = Sequence[Sequence[int]]
"""Counts of states, then those of each band."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What one device's states under one noise version gave in a window, exactly: secret, but for the first four."""

    device: str
    noise: int
    ticks: int
    starts: Sequence[int]
    groups: Groups = field(repr=False)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The same with its charged noise, whose variance is the one on the first group."""

    device: str
    noise: int
    ticks: int
    starts: Sequence[int]
    groups: Groups
    variance: float


class Mechanism(Protocol):
    """Noise for sums of which the first so many bands were counted, if a state in one window costs `tilt` nano-nats."""

    def noised(self, exact: Sequence[Groups], *, tilt: int, bands: int) -> list[Groups]: ...
    def variance(self, *, tilt: int, bands: int) -> float: ...


def hold(db: Connection, stream: str, window: Iterable[Counted], *, tilt: int) -> None:
    """Add a window's sums to what waits. Within the transaction that charges it `tilt` nano-nats."""
    waiting = {(row.device, row.noise): row for row in db.execute(select(pending).where(_of(stream)))}
    rows = {key: row._asdict() for key, row in waiting.items()}
    for one in window:
        old = waiting.get((one.device, one.noise))
        starts, groups, ticks, least = one.starts, one.groups, one.ticks, tilt
        if old is not None:
            starts = _sum(starts, json.loads(old.starts))
            groups = [_sum(*both) for both in zip(groups, json.loads(old.groups), strict=True)]
            ticks, least = ticks + old.ticks, min(tilt, old.tilt)
        rows[one.device, one.noise] = {
            "stream": stream,
            "device": one.device,
            "noise": one.noise,
            "ticks": ticks,
            "starts": json.dumps(list(starts)),
            "groups": json.dumps([list(group) for group in groups]),
            "tilt": least,
        }
    db.execute(delete(pending).where(_of(stream)))
    if rows:
        db.execute(insert(pending), list(rows.values()))


def draw(db: Connection, stream: str, mechanism: Mechanism) -> list[Drawn]:
    """Take all that waits, and draw the noise of each sum: once, since it is forgotten here.

    A band without starts was not counted in any of the windows: there is nothing to hide.
    """
    alike = defaultdict(list)
    for row in db.execute(select(pending).where(_of(stream)).order_by(pending.c.device, pending.c.noise)):
        alike[row.tilt, sum(starts > 0 for starts in json.loads(row.starts))].append(row)
    db.execute(delete(pending).where(_of(stream)))
    drawn = []
    for (tilt, bands), rows in alike.items():
        exact = [json.loads(row.groups) for row in rows]
        variance = mechanism.variance(tilt=tilt, bands=bands)
        noised = mechanism.noised(exact, tilt=tilt, bands=bands)
        drawn += [
            Drawn(row.device, row.noise, row.ticks, json.loads(row.starts), groups, variance)
            for row, groups in zip(rows, noised, strict=True)
        ]
    return drawn


def _of(stream: str) -> ColumnElement[bool]:
    return pending.c.stream == stream


def _sum(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]
