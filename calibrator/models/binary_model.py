"""Learning about streams of two states: how statistics and beliefs are kept, and what a fit says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, Row, and_, bindparam, insert, select, update

from hushmq.calibrator.learning.pending_statistics import Drawn, Groups
from hushmq.calibrator.ledger.audience_timelines import NANO
from hushmq.calibrator.models.binary import binary_misfit as misfit
from hushmq.calibrator.models.binary import binary_region as region
from hushmq.calibrator.models.binary.binary_fit import Evidence, Fit, fit
from hushmq.calibrator.models.binary.binary_statistics import BANDS, REACH
from hushmq.calibrator.models.chain_model import read
from hushmq.calibrator.models.draw_noise import noisy_together
from hushmq.calibrator.store.tables import belief, setting, statistic
from hushmq.pufferfish.binary.stream_loss import Box, Noise
from hushmq.pufferfish.noise.joint_noise import mean_square


@dataclass(frozen=True, slots=True)
class Found:
    """A fit and the evidence it rests on."""

    evidence: Evidence
    fit: Fit

    @property
    def size(self) -> int:
        """How many devices there is evidence of."""
        return len(self.fit.devices)

    def cohort(self, confidence: float) -> Box:
        return region.cohort_region(self.fit, confidence)

    def centre(self, confidence: float) -> Box:
        return region.centre_region(self.fit, confidence)

    def devices(self, confidence: float) -> dict[str, Box]:
        return region.device_regions(self.fit, confidence)

    def misfit(self, error: float) -> misfit.Misfit:
        return misfit.measure(self.evidence, self.fit, error)


class Two:
    """Streams of two states."""

    statistic, belief = statistic, belief

    def noised(self, exact: Sequence[Groups], *, tilt: int, bands: int) -> list[Groups]:
        """One draw for the ones and the changes of the bands that were counted, for each device."""
        reach = REACH[: bands + 1]
        found: list[Groups] = []
        for groups in exact:
            sums = [one for (one,) in groups]
            noised = noisy_together(sums[: bands + 1], reach=reach, tilt=tilt)
            found.append([[one] for one in (*noised, *sums[bands + 1 :])])
        return found

    def variance(self, *, tilt: int, bands: int) -> float:
        """On the ones; on a band's changes it is that times the square of their reach, or a little less."""
        return mean_square(REACH[: bands + 1], tilt / NANO)

    def add(self, db: Connection, stream: str, block: int, drawn: Iterable[Drawn]) -> None:
        """Add what was drawn to what the block holds of the same device and noise version."""
        mine = and_(statistic.c.stream == stream, statistic.c.block == block)
        known = {
            (row.device, row.noise)
            for row in db.execute(select(statistic.c.device, statistic.c.noise).where(mine))
        }
        fresh, more = [], []
        for one in drawn:
            row = _columns(one)
            if (one.device, one.noise) in known:
                more.append(
                    {"of_device": one.device, "of_noise": one.noise} | {f"add_{k}": v for k, v in row.items()}
                )
            else:
                fresh.append(
                    {"stream": stream, "block": block, "device": one.device, "noise": one.noise, **row}
                )
        if fresh:
            db.execute(insert(statistic), fresh)
        if more:
            db.execute(
                update(statistic)
                .where(
                    mine,
                    statistic.c.device == bindparam("of_device"),
                    statistic.c.noise == bindparam("of_noise"),
                )
                .values({name: statistic.c[name] + bindparam(f"add_{name}") for name in SUMMED}),
                more,
            )

    def found(self, db: Connection, stream: str, *, since: int) -> Found | None:
        """The fit of the blocks from `since` on; None where there is too little."""
        evidence = _evidence(db, stream, since=since)
        fitted = fit(evidence)
        return None if fitted is None else Found(evidence, fitted)

    def read(self, row: Row[tuple[object, ...]]) -> Box:
        """The box of a belief."""
        return Box(row.q_low, row.q_high, row.r_low, row.r_high)

    def written(self, believed: Box) -> dict[str, object]:
        """The columns of a belief."""
        return {
            "q_low": believed.q_low,
            "q_high": believed.q_high,
            "r_low": believed.r_low,
            "r_high": believed.r_high,
        }

    def slowed(self, theta: Box, lasting: Sequence[float]) -> Box:
        """The chains of Θ with the shares that last covered."""
        return misfit.slowed(theta, lasting)

    def with_doubt(self, believed: Box) -> Box:
        """The chains that are not excluded beyond doubt."""
        q = region.with_doubt(believed.q_low, believed.q_high)
        r = region.with_doubt(believed.r_low, believed.r_high)
        return Box(*(min(ANYTHING.q_high, max(ANYTHING.q_low, end)) for end in (*q, *r)))

    def anything(self, like: Box) -> Box:
        """A belief that excludes nothing."""
        return ANYTHING


TWO = Two()
ANYTHING = Box(1e-9, 1 - 1e-9, 1e-9, 1 - 1e-9)
SUMMED = tuple(column.name for column in statistic.c if not column.primary_key)


def _columns(one: Drawn) -> dict[str, float]:
    (ones,), *changes = one.groups
    bands = {
        f"{name}_{band}": values[band]
        for name, values in (("starts", one.starts), ("changes", [count for (count,) in changes]))
        for band in range(len(BANDS))
    }
    return {"ticks": one.ticks, "ones": ones, **bands, "variance": one.variance}


def _evidence(db: Connection, stream: str, *, since: int) -> Evidence:
    """The blocks from `since` on, one row per block, device and noise version."""
    rows = db.execute(
        select(statistic, setting.c.noise.label("written"))
        .where(
            statistic.c.stream == stream,
            statistic.c.block >= since,
            setting.c.stream == stream,
            setting.c.version == statistic.c.noise,
        )
        .order_by(statistic.c.device, statistic.c.noise, statistic.c.block)
    ).all()
    devices = tuple(dict.fromkeys(row.device for row in rows))
    noises = [one for one in (read(row.written) for row in rows) if isinstance(one, Noise)]
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
        np.array([one.rho0 for one in noises]),
        np.array([one.rho1 for one in noises]),
        column("ticks"),
        column("ones"),
        banded("starts"),
        banded("changes"),
        column("variance"),
    )
