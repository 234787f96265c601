"""Θ after all the evidence so far: a confidence sequence over ever later looks at the charged statistics.

Looking often and keeping the best look would claim too much. So look k comes after FIRST_LOOK·2^(k−1) windows and
may be wrong with probability (1−confidence)/2^k: with the given confidence ALL looks are right at once, and so is
their intersection. Θ only narrows, and what was released under an earlier Θ stays within budget under a later one.

A device is held by two regions of each look: the cohort's, which holds any device, and its own. Either may be wrong
with half the look's probability, so both hold together, and the device's Θ is their intersection: never wider than
the cohort's, under whose settings it began. Only one whose own region does not meet the cohort's has its own alone.

Statistics are summed by block, the windows from one look to the next. A look weighs the last two blocks, three
quarters of all evidence; what is older is forgotten, and the tables do not grow with time.

A look whose centre lies outside what was believed contradicts it, and so does a check between looks that finds the
centre of the cohort, beyond doubt, elsewhere. Then the data has changed: what was believed is dropped, Θ is the
policy's start again, and the latest block is the first evidence of the new sequence.

What is learned is a function of statistics that were charged to the public account, and of nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sqlalchemy import Connection, Row, and_, bindparam, delete, insert, select, update

from calibrator.estimate import Evidence, fit
from calibrator.misfit import Misfit, measure, shifted
from calibrator.region import (
    CONFIDENCE,
    centre_box,
    centre_region,
    cohort_region,
    device_regions,
)
from calibrator.statistics import BANDS
from calibrator.store import belief, learning, setting, statistic
from pufferfish.binary import Box

FIRST_LOOK = 4
"""Windows before the first look."""
CHECK_CONFIDENCE = 0.999
"""Of a check between looks: a false alarm costs nothing but evidence."""
KEPT_BLOCKS = 2
COHORT = ""
"""Stands for any device of the cohort."""

Covering = Literal["cover", "report"]


@dataclass(frozen=True, slots=True)
class Statistic:
    """What one device's window under one noise version gave, with its charged noise."""

    device: str
    noise: int
    ticks: int
    ones: int
    starts: Sequence[int]
    changes: Sequence[int]

    @property
    def row(self) -> dict[str, int]:
        bands = {
            f"{name}_{band}": values[band]
            for name, values in (("starts", self.starts), ("changes", self.changes))
            for band in range(len(BANDS))
        }
        return {"ticks": self.ticks, "ones": self.ones, **bands}


@dataclass(frozen=True, slots=True)
class Progress:
    """How far learning has come: windows since the last contradiction, the misfit to cover, contradictions so far."""

    windows: int = 0
    shift: float = 0.0
    contradictions: int = 0


def learned(
    db: Connection, stream: str, *, start: Box, floor: Box, misfit: Covering = "cover", device: str = COHORT
) -> Box:
    """Θ for a stream: the start narrowed by the looks, the misfit covered, and never narrower than the floor.

    Looks that lie outside the start widen it: Θ then holds both. A device nothing is known of has the cohort's Θ.
    """
    row = db.execute(select(belief).where(belief.c.stream == stream, belief.c.device == device)).first()
    if row is None and device != COHORT:
        return learned(db, stream, start=start, floor=floor, misfit=misfit)
    shift = progress(db, stream).shift if misfit == "cover" else 0.0
    return _theta(None if row is None else _box(row), start=start, floor=floor, shift=shift)


def learned_devices(
    db: Connection, stream: str, *, start: Box, floor: Box, misfit: Covering = "cover"
) -> dict[str, Box]:
    """Θ of every device with evidence of its own, shrunk towards the cohort's as far as that evidence is thin."""
    shift = progress(db, stream).shift if misfit == "cover" else 0.0
    rows = db.execute(select(belief).where(belief.c.stream == stream, belief.c.device != COHORT))
    return {row.device: _theta(_box(row), start=start, floor=floor, shift=shift) for row in rows}


def _theta(believed: Box | None, *, start: Box, floor: Box, shift: float) -> Box:
    theta = start
    if believed is not None:
        try:
            theta = start.intersect(believed)
        except ValueError:
            theta = start.hull(believed)
    if shift < 0:
        theta = theta.hull(shifted(theta, shift))
    return theta.hull(floor)


def progress(db: Connection, stream: str) -> Progress:
    row = db.execute(select(learning).where(learning.c.stream == stream)).first()
    return Progress() if row is None else Progress(row.windows, row.shift, row.contradictions)


def misfit_of(db: Connection, stream: str) -> Misfit | None:
    """The misfit in the evidence kept, for the report; None before there is enough."""
    evidence = _evidence(db, stream, since=0)
    found = fit(evidence)
    return None if found is None else measure(evidence, found)


def note(db: Connection, stream: str, statistics: Iterable[Statistic], *, variance: float) -> None:
    """Take in one window's charged statistics, and look again when it is time. Within the caller's transaction."""
    before = progress(db, stream)
    now = Progress(before.windows + 1, before.shift, before.contradictions)
    block = block_of(now.windows)
    _add(db, stream, block, statistics, variance)
    since_look = now.windows - last_look(now.windows - 1)
    if now.windows == last_look(now.windows):
        now = _look(db, stream, block, now)
    elif since_look & (since_look - 1) == 0 and _contradicted(db, stream, block):
        now = _restart(db, stream, block, now, windows=since_look)
    _keep(db, stream, now)


def block_of(windows: int) -> int:
    """The block that this window belongs to: 0 up to the first look, then one more for each look."""
    return max(0, (max(windows, 1) - 1) // FIRST_LOOK).bit_length()


def last_look(windows: int) -> int:
    """The number of windows at the last look, 0 before the first."""
    return 0 if windows < FIRST_LOOK else FIRST_LOOK << ((windows // FIRST_LOOK).bit_length() - 1)


def _look(db: Connection, stream: str, block: int, now: Progress) -> Progress:
    """Intersect what is believed with the regions of this look."""
    evidence = _evidence(db, stream, since=block - KEPT_BLOCKS + 1)
    found = fit(evidence)
    if found is None:
        return now
    confidence = 1 - (1 - CONFIDENCE) / 2 ** (block + 2)
    believed = _beliefs(db, stream)
    old = believed.get(COHORT)
    if old is not None and not old.contains(centre_box(found)):
        return _restart(db, stream, block, now, windows=now.windows - last_look(now.windows - 1))
    region = cohort_region(found, confidence)
    whole = region if old is None else old.intersect(region)
    fresh = {device: _within(box, whole) for device, box in believed.items()} | {COHORT: whole}
    for device, own in device_regions(found, confidence).items():
        fresh[device] = _within(_within(own, believed.get(device, own)), whole)
    _believe(db, stream, fresh)
    db.execute(
        delete(statistic).where(statistic.c.stream == stream, statistic.c.block < block - KEPT_BLOCKS + 2)
    )
    return Progress(now.windows, measure(evidence, found).shift, now.contradictions)


def _within(own: Box, other: Box) -> Box:
    """Both together; where they contradict each other, the device's own newest region counts."""
    try:
        return own.intersect(other)
    except ValueError:
        return own


def _contradicted(db: Connection, stream: str, block: int) -> bool:
    """Whether the evidence since the last look puts the cohort's centre, beyond doubt, outside what is believed."""
    old = _beliefs(db, stream).get(COHORT)
    found = None if old is None else fit(_evidence(db, stream, since=block))
    if old is None or found is None:
        return False
    try:
        old.intersect(centre_region(found, CHECK_CONFIDENCE))
    except ValueError:
        return True
    return False


def _restart(db: Connection, stream: str, block: int, now: Progress, *, windows: int) -> Progress:
    """Drop what was believed and all evidence but the latest block, which becomes the first of a new sequence."""
    db.execute(delete(belief).where(belief.c.stream == stream))
    db.execute(delete(statistic).where(statistic.c.stream == stream, statistic.c.block != block))
    db.execute(update(statistic).where(statistic.c.stream == stream).values(block=block_of(windows)))
    return Progress(windows, 0.0, now.contradictions + 1)


def _add(db: Connection, stream: str, block: int, statistics: Iterable[Statistic], variance: float) -> None:
    mine = and_(statistic.c.stream == stream, statistic.c.block == block)
    known = {
        (row.device, row.noise)
        for row in db.execute(select(statistic.c.device, statistic.c.noise).where(mine))
    }
    fresh, more = [], []
    for one in statistics:
        row = {**one.row, "variance": variance}
        if (one.device, one.noise) in known:
            more.append(
                {"of_device": one.device, "of_noise": one.noise} | {f"add_{k}": v for k, v in row.items()}
            )
        else:
            fresh.append({"stream": stream, "block": block, "device": one.device, "noise": one.noise, **row})
    if fresh:
        db.execute(insert(statistic), fresh)
    if more:
        db.execute(
            update(statistic)
            .where(
                mine, statistic.c.device == bindparam("of_device"), statistic.c.noise == bindparam("of_noise")
            )
            .values({name: statistic.c[name] + bindparam(f"add_{name}") for name in SUMMED}),
            more,
        )


SUMMED = tuple(column.name for column in statistic.c if not column.primary_key)


def _evidence(db: Connection, stream: str, *, since: int) -> Evidence:
    """The blocks from `since` on, one row per block, device and noise version."""
    rows = db.execute(
        select(statistic, setting.c.rho0, setting.c.rho1)
        .where(
            statistic.c.stream == stream,
            statistic.c.block >= since,
            setting.c.stream == stream,
            setting.c.version == statistic.c.noise,
        )
        .order_by(statistic.c.device, statistic.c.noise, statistic.c.block)
    ).all()
    devices = tuple(dict.fromkeys(row.device for row in rows))
    index = {device: number for number, device in enumerate(devices)}

    def column(name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([getattr(row, name) for row in rows], dtype=float)

    def banded(name: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.array(
            [[getattr(row, f"{name}_{band}") for band in range(len(BANDS))] for row in rows], dtype=float
        ).reshape(len(rows), len(BANDS))

    return Evidence(
        devices,
        np.array([index[row.device] for row in rows], dtype=np.int64),
        column("rho0"),
        column("rho1"),
        column("ticks"),
        column("ones"),
        banded("starts"),
        banded("changes"),
        column("variance"),
    )


def _beliefs(db: Connection, stream: str) -> dict[str, Box]:
    return {row.device: _box(row) for row in db.execute(select(belief).where(belief.c.stream == stream))}


def _box(row: Row[tuple[object, ...]]) -> Box:
    return Box(row.q_low, row.q_high, row.r_low, row.r_high)


def _believe(db: Connection, stream: str, fresh: Mapping[str, Box]) -> None:
    mine = belief.c.stream == stream
    for device in fresh:
        db.execute(delete(belief).where(mine, belief.c.device == device))
    db.execute(
        insert(belief),
        [
            {
                "stream": stream,
                "device": device,
                "q_low": box.q_low,
                "q_high": box.q_high,
                "r_low": box.r_low,
                "r_high": box.r_high,
            }
            for device, box in fresh.items()
        ],
    )


def _keep(db: Connection, stream: str, now: Progress) -> None:
    values = {"windows": now.windows, "shift": now.shift, "contradictions": now.contradictions}
    if db.execute(update(learning).where(learning.c.stream == stream).values(**values)).rowcount == 0:
        db.execute(insert(learning).values(stream=stream, **values))
