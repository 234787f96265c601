"""Pending statistics: exact sums over windows that are charged, whose noise is drawn once for all of them.

Theorem (docs/theory-accounts.md, A2: one draw for several windows). Let w be the least that any of the windows was
charged. Noise on the sum over them that costs a state w if it is in one of them, and n·w if it is in n, costs no more
than what the state's windows were charged. So m windows together have the noise of one.

Pending statistics are no more than the operator, who has the states, could count anyway. Nothing that is published,
pushed or learned depends on them: `draw_pending` is the only way out, and deletes what it has drawn from in the same
transaction.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from hushmq.calibrator.models.chain_model import AnyModel
from hushmq.calibrator.models.sufficient_statistics import (
    ExactStatistics,
    NoisyStatistics,
    summed,
    summed_groups,
)
from hushmq.calibrator.store.tables import pending


def hold_statistics(db: Connection, stream: str, window: Iterable[ExactStatistics], *, tilt: int) -> None:
    """Add a window's sums to the pending ones, within the transaction that charges it `tilt` nano-nats."""
    held = {(row.device, row.noise): row for row in db.execute(select(pending).where(_of(stream)))}
    rows = {key: row._asdict() for key, row in held.items()}
    for one in window:
        old = held.get((one.device, one.noise))
        starts, groups, ticks, least = one.starts, one.groups, one.ticks, tilt
        if old is not None:
            starts = summed(starts, json.loads(old.starts))
            groups = summed_groups(groups, json.loads(old.groups))
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


def draw_pending(db: Connection, stream: str, model: AnyModel) -> list[NoisyStatistics]:
    """Draw the noise of all pending sums: once, since they are deleted here.

    A band without starts was not counted in any of the windows and needs no noise.
    """
    alike = defaultdict(list)
    for row in db.execute(select(pending).where(_of(stream)).order_by(pending.c.device, pending.c.noise)):
        alike[row.tilt, sum(starts > 0 for starts in json.loads(row.starts))].append(row)
    db.execute(delete(pending).where(_of(stream)))
    drawn = []
    for (tilt, bands), rows in alike.items():
        exact = [json.loads(row.groups) for row in rows]
        variance = model.noise_variance(tilt=tilt, bands=bands)
        noised = model.add_noise(exact, tilt=tilt, bands=bands)
        drawn += [
            NoisyStatistics(row.device, row.noise, row.ticks, json.loads(row.starts), groups, variance)
            for row, groups in zip(rows, noised, strict=True)
        ]
    return drawn


def drop_pending(db: Connection, stream: str) -> None:
    """Delete the pending sums of a stream undrawn: what they were charged stays charged."""
    db.execute(delete(pending).where(_of(stream)))


def _of(stream: str) -> ColumnElement[bool]:
    return pending.c.stream == stream
