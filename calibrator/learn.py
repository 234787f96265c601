"""Θ after all the evidence so far: a confidence sequence over ever later looks at the charged statistics.

Looking often and keeping the best look would claim too much. So look k comes after FIRST_LOOK·2^(k−1) windows and
may be wrong with probability (1−confidence)/2^k: with the given confidence ALL looks are right at once, and so is
their intersection. Θ only narrows, and what was released under an earlier Θ stays within budget under a later one.
Nothing is stored: Θ is recomputed from the statistics, so that it cannot disagree with them.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, func, select

from calibrator.estimate import Statistic, moments, region
from calibrator.store import setting, statistic
from pufferfish.binary import Box, Noise

FIRST_LOOK = 3
"""Windows before the first look."""
CONFIDENCE = 0.95


def learned(db: Connection, stream: str, *, start: Box, floor: Box) -> Box:
    """Θ for a stream: the start, narrowed by every look, and never narrower than the floor.

    Looks that contradict the start or each other leave the start standing: it is the wider promise.
    """
    theta = start
    for look in looks(db, stream):
        try:
            theta = theta.intersect(look)
        except ValueError:
            return start
    return theta.hull(floor)


def looks(db: Connection, stream: str) -> Iterator[Box]:
    """The regions of the looks so far, where the statistics determine one."""
    entries = db.execute(
        select(statistic.c.entry).where(statistic.c.stream == stream).distinct().order_by(statistic.c.entry)
    ).scalars()
    windows, error = FIRST_LOOK, (1 - CONFIDENCE) / 2
    for number, entry in enumerate(entries, start=1):
        if number == windows:
            estimates = [moments(rows) for rows in _statistics(db, stream, through=entry).values()]
            box = region([one for one in estimates if one is not None], confidence=1 - error)
            if box is not None:
                yield box
            windows, error = windows * 2, error / 2


def _statistics(db: Connection, stream: str, *, through: int) -> dict[str, list[Statistic]]:
    """The statistics charged up to a ledger entry, by device, summed over the windows of one noise version."""
    sums = [func.sum(column).label(column.name) for column in statistic.c if column.name in SUMMED]
    rows = db.execute(
        select(statistic.c.device, setting.c.rho0, setting.c.rho1, *sums)
        .where(
            statistic.c.stream == stream,
            statistic.c.entry <= through,
            setting.c.stream == stream,
            setting.c.version == statistic.c.noise,
        )
        .group_by(statistic.c.device, statistic.c.noise, setting.c.rho0, setting.c.rho1)
    )
    grouped: dict[str, list[Statistic]] = {}
    for row in rows:
        one = Statistic(Noise(row.rho0, row.rho1), *(int(getattr(row, name)) for name in SUMMED))
        grouped.setdefault(row.device, []).append(one)
    return grouped


SUMMED = ("ticks", "ones", "pairs", "changes")
