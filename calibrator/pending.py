"""Exact sums of windows that are paid for and wait for their noise, which is drawn once for all of them.

Theorem (docs/theory-accounts.md, A2: one draw for several windows). Window j was charged the tilt w_j, and changing one
of its states moves its sums by at most Δ_j, in units of the scale. Then noise of scale max_j Δ_j/w_j on the sum over
all windows costs a state no more than the windows it is in were charged. So m windows together have the noise of one.

What waits is no more than the operator, who has the states, could count anyway. Nothing that is published, pushed or
believed depends on it: `draw` is the only way out, and forgets what it has drawn from in the same transaction.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from calibrator.noise import noisy, variance
from calibrator.statistics import MULTIPLES
from calibrator.store import pending

Groups = Sequence[Sequence[int]]
"""Counts of states, then those of each band: a group's noise has the scale times its entry of MULTIPLES."""


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


def hold(db: Connection, stream: str, window: Iterable[Counted], *, scale: float) -> None:
    """Add a window's sums, for which this scale was paid, to what waits. Within the transaction that charges it."""
    waiting = {(row.device, row.noise): row for row in db.execute(select(pending).where(_of(stream)))}
    rows = {key: row._asdict() for key, row in waiting.items()}
    for one in window:
        old = waiting.get((one.device, one.noise))
        starts, groups, ticks, widest = one.starts, one.groups, one.ticks, scale
        if old is not None:
            starts = _sum(starts, json.loads(old.starts))
            groups = [_sum(*both) for both in zip(groups, json.loads(old.groups), strict=True)]
            ticks, widest = ticks + old.ticks, max(scale, old.scale)
        rows[one.device, one.noise] = {
            "stream": stream,
            "device": one.device,
            "noise": one.noise,
            "ticks": ticks,
            "starts": json.dumps(list(starts)),
            "groups": json.dumps([list(group) for group in groups]),
            "scale": widest,
        }
    db.execute(delete(pending).where(_of(stream)))
    if rows:
        db.execute(insert(pending), list(rows.values()))


def draw(db: Connection, stream: str) -> list[Drawn]:
    """Take all that waits, and draw the noise of each sum: once, since it is forgotten here."""
    alike = defaultdict(list)
    for row in db.execute(select(pending).where(_of(stream)).order_by(pending.c.device, pending.c.noise)):
        alike[row.scale].append(row)
    db.execute(delete(pending).where(_of(stream)))
    drawn = []
    for scale, rows in alike.items():
        exact = [json.loads(row.groups) for row in rows]
        noised = [
            _noisy([groups[place] for groups in exact], scale=math.nextafter(scale * multiple, math.inf))
            for place, multiple in enumerate(MULTIPLES)
        ]
        drawn += [
            Drawn(row.device, row.noise, row.ticks, json.loads(row.starts), groups, variance(scale))
            for row, groups in zip(rows, zip(*noised, strict=True), strict=True)
        ]
    return drawn


def _of(stream: str) -> ColumnElement[bool]:
    return pending.c.stream == stream


def _sum(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _noisy(groups: list[list[int]], *, scale: float) -> list[list[int]]:
    """Each number with noise of its own."""
    flat = noisy([count for group in groups for count in group], scale=scale)
    size = len(groups[0])
    return [flat[first : first + size] for first in range(0, len(flat), size)]
