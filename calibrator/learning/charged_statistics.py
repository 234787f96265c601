"""The statistics that may be learned from: noisy, charged to the public account, summed by block.

The noise of every row is charged, so that whatever is computed from these rows is post-processing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

from sqlalchemy import Connection, and_, bindparam, delete, insert, select

from hushmq.calibrator.learning.robust_fit import RobustFit, robust_fit
from hushmq.calibrator.models.chain_model import AnyModel, FittedCohort
from hushmq.calibrator.models.choose_model import read_noise
from hushmq.calibrator.models.sufficient_statistics import NoisyStatistics, summed, summed_groups
from hushmq.calibrator.store.tables import setting, statistic
from hushmq.pufferfish.protocols import Noise, Region


def add_to_block(db: Connection, stream: str, block: int, drawn: Iterable[NoisyStatistics]) -> None:
    """Add statistics to those that the block holds of the same device and noise version."""
    here = and_(statistic.c.stream == stream, statistic.c.block == block)
    held = {(row.device, row.noise): row for row in db.execute(select(statistic).where(here))}
    new, replaced = [], []
    for one in drawn:
        old = held.get((one.device, one.noise))
        starts, groups, ticks, variance = one.starts, one.groups, one.ticks, one.variance
        if old is not None:
            replaced.append({"of_device": one.device, "of_noise": one.noise})
            starts = summed(starts, json.loads(old.starts))
            groups = summed_groups(groups, json.loads(old.groups))
            ticks, variance = ticks + old.ticks, variance + old.variance
        new.append(
            {
                "stream": stream,
                "block": block,
                "device": one.device,
                "noise": one.noise,
                "ticks": ticks,
                "starts": json.dumps(list(starts)),
                "groups": json.dumps([list(group) for group in groups]),
                "variance": variance,
            }
        )
    if replaced:
        of_one = and_(
            statistic.c.device == bindparam("of_device"), statistic.c.noise == bindparam("of_noise")
        )
        db.execute(delete(statistic).where(here, of_one), replaced)
    if new:
        db.execute(insert(statistic), new)


def fit_since(db: Connection, stream: str, model: AnyModel, *, since: int) -> FittedCohort[Region] | None:
    """The model's fit of the blocks from `since` on; None where there is too little evidence."""
    found: FittedCohort[Region] | None = model.fit(_rows(db, stream, since=since))
    return found


def robust_fit_since(
    db: Connection, stream: str, model: AnyModel, *, since: int, error: float
) -> RobustFit | None:
    """The same without the devices that are clearly apart from the others (calibrator/learning/robust_fit.py)."""
    rows = _rows(db, stream, since=since)

    def fit(chosen: Collection[str]) -> FittedCohort[Region] | None:
        wanted = set(chosen)
        found: FittedCohort[Region] | None = model.fit([row for row in rows if row[0].device in wanted])
        return found

    return robust_fit(list(dict.fromkeys(one.device for one, _ in rows)), fit, error)


def drop_before(db: Connection, stream: str, block: int) -> None:
    """Delete the statistics of earlier blocks."""
    db.execute(delete(statistic).where(statistic.c.stream == stream, statistic.c.block < block))


def drop_devices(db: Connection, stream: str, devices: Iterable[str]) -> None:
    """Delete the statistics of these devices."""
    for device in devices:
        db.execute(delete(statistic).where(statistic.c.stream == stream, statistic.c.device == device))


def drop_stream(db: Connection, stream: str) -> None:
    """Delete all statistics of a stream."""
    db.execute(delete(statistic).where(statistic.c.stream == stream))


def _rows(db: Connection, stream: str, *, since: int) -> list[tuple[NoisyStatistics, Noise]]:
    """One row per block, device and noise version, with the noise itself."""
    rows = db.execute(
        select(statistic, setting.c.noise.label("stored_noise"))
        .where(
            statistic.c.stream == stream,
            statistic.c.block >= since,
            setting.c.stream == stream,
            setting.c.version == statistic.c.noise,
        )
        .order_by(statistic.c.device, statistic.c.noise, statistic.c.block)
    )
    return [
        (
            NoisyStatistics(
                row.device,
                row.noise,
                row.ticks,
                json.loads(row.starts),
                json.loads(row.groups),
                row.variance,
            ),
            read_noise(row.stored_noise),
        )
        for row in rows
    ]
