"""Pending statistics: exact sums over windows that are charged, whose noise is drawn once for all of them.

Theorem (docs/theory-accounts.md, A2: one draw for several windows). Let w be the least that any of the windows was
charged. Noise on the sum over them that costs a state w if it is in one of them, and n·w if it is in n, costs no more
than what the state's windows were charged. So m windows together have the noise of one.

Pending statistics are no more than the operator, who has the states, could count anyway. Nothing that is published,
pushed or learned depends on them: `draw_pending` is the only way out, and deletes what it has drawn from in the same
transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from pydantic_core import from_json, to_json
from sqlalchemy import ColumnElement, Connection, Executable, bindparam, delete, select

from hushmq.calibrator.models.chain_model import AnyModel
from hushmq.calibrator.models.sufficient_statistics import (
    ExactStatistics,
    NoisyStatistics,
    summed,
    summed_groups,
)
from hushmq.calibrator.store.tables import pending
from hushmq.calibrator.store.upsert import upsert

_PENDING = select(pending).where(pending.c.stream == bindparam("stream_"))


def hold_statistics(db: Connection, stream: str, window: Iterable[ExactStatistics], *, tilt: int) -> None:
    """Add a window's sums to the pending ones, within the transaction that charges it `tilt` nano-nats."""
    held = {(row.device, row.noise): row for row in db.execute(_PENDING, {"stream_": stream})}
    rows = []
    for one in window:
        old = held.get((one.device, one.noise))
        starts, groups, ticks, least = one.starts, one.groups, one.ticks, tilt
        if old is not None:
            starts = summed(starts, from_json(old.starts))
            groups = summed_groups(groups, from_json(old.groups))
            ticks, least = ticks + old.ticks, min(tilt, old.tilt)
        rows.append(
            {
                "stream": stream,
                "device": one.device,
                "noise": one.noise,
                "ticks": ticks,
                "starts": to_json(starts).decode(),
                "groups": to_json(groups).decode(),
                "tilt": least,
            }
        )
    if rows:
        db.execute(_held(db.dialect.name), rows)


@lru_cache(maxsize=2)
def _held(dialect: str) -> Executable:
    """Replace the sums of a device and noise version, or begin them."""
    new = upsert(dialect, pending)
    key = [pending.c.stream, pending.c.device, pending.c.noise]
    values = {name: new.excluded[name] for name in ("ticks", "starts", "groups", "tilt")}
    return new.on_conflict_do_update(index_elements=key, set_=values)


def draw_pending(db: Connection, stream: str, model: AnyModel) -> list[NoisyStatistics]:
    """Draw the noise of all pending sums: once, since they are deleted here.

    A band without starts was not counted in any of the windows and needs no noise.
    """
    alike = defaultdict(list)
    for row in db.execute(select(pending).where(_of(stream)).order_by(pending.c.device, pending.c.noise)):
        alike[row.tilt, sum(starts > 0 for starts in from_json(row.starts))].append(row)
    db.execute(delete(pending).where(_of(stream)))
    drawn = []
    for (tilt, bands), rows in alike.items():
        exact = [from_json(row.groups) for row in rows]
        variance = model.noise_variance(tilt=tilt, bands=bands)
        noised = model.add_noise(exact, tilt=tilt, bands=bands)
        drawn += [
            NoisyStatistics(row.device, row.noise, row.ticks, from_json(row.starts), groups, variance)
            for row, groups in zip(rows, noised, strict=True)
        ]
    return drawn


def drop_pending(db: Connection, stream: str) -> None:
    """Delete the pending sums of a stream undrawn: what they were charged stays charged."""
    db.execute(delete(pending).where(_of(stream)))


def _of(stream: str) -> ColumnElement[bool]:
    return pending.c.stream == stream
