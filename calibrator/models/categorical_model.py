"""Learning about streams of more than two states: how statistics and beliefs are kept, and what a fit says."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, Row, and_, bindparam, delete, insert, select

from hushmq.broker.contract.theta_message import IntervalTheta, theta_of
from hushmq.calibrator.learning.pending_statistics import Drawn, Groups
from hushmq.calibrator.ledger.audience_timelines import scale_for
from hushmq.calibrator.models.binary.binary_misfit import Misfit
from hushmq.calibrator.models.binary.binary_statistics import BANDS
from hushmq.calibrator.models.categorical import categorical_misfit as misfit_k
from hushmq.calibrator.models.categorical import categorical_region as region_k
from hushmq.calibrator.models.categorical.categorical_fit import EvidenceK, FitK, fit
from hushmq.calibrator.models.categorical.categorical_statistics import MULTIPLES, sensitivity
from hushmq.calibrator.models.chain_model import read
from hushmq.calibrator.models.draw_noise import noisy, variance
from hushmq.calibrator.store.tables import belief_k, setting, statistic_k
from hushmq.pufferfish.categorical.transition_intervals import Class, Intervals


@dataclass(frozen=True, slots=True)
class FoundK:
    """A fit and the evidence it rests on."""

    evidence: EvidenceK
    fit: FitK

    @property
    def size(self) -> int:
        """How many devices there is evidence of."""
        return len(self.fit.devices)

    def cohort(self, confidence: float) -> Class:
        return region_k.cohort_region(self.fit, confidence)

    def centre(self, confidence: float) -> Class:
        return region_k.centre_region(self.fit, confidence)

    def devices(self, confidence: float) -> dict[str, Class]:
        return region_k.device_regions(self.fit, confidence)

    def misfit(self, error: float) -> Misfit:
        return misfit_k.measure(self.evidence, self.fit, error)


class More:
    """Streams of more than two states."""

    statistic, belief = statistic_k, belief_k

    def noised(self, exact: Sequence[Groups], *, tilt: int, bands: int) -> list[Groups]:
        """Laplace noise for each number that was counted, a band's as much wider as its entry of MULTIPLES."""
        scale = scale_for(sensitivity(bands), tilt)
        found: list[list[Sequence[int]]] = [list(groups) for groups in exact]
        for place in range(bands + 1):
            size = len(exact[0][place])
            wide = math.nextafter(scale * MULTIPLES[place], math.inf)
            flat = noisy([count for groups in exact for count in groups[place]], scale=wide)
            for number, groups in enumerate(found):
                groups[place] = flat[number * size : (number + 1) * size]
        return [*found]

    def variance(self, *, tilt: int, bands: int) -> float:
        """On the counts; on a band's pairs it is that times the square of its entry of MULTIPLES."""
        return variance(scale_for(sensitivity(bands), tilt))

    def add(self, db: Connection, stream: str, block: int, drawn: Iterable[Drawn]) -> None:
        """Add what was drawn to what the block holds of the same device and noise version."""
        here = and_(statistic_k.c.stream == stream, statistic_k.c.block == block)
        held = {(row.device, row.noise): row for row in db.execute(select(statistic_k).where(here))}
        new, grown = [], []
        for one in drawn:
            old = held.get((one.device, one.noise))
            starts, counts = np.array(one.starts), np.array(one.groups[0])
            pairs = np.array(one.groups[1:]).reshape(len(BANDS), len(counts), len(counts))
            if old is not None:
                grown.append({"of_device": one.device, "of_noise": one.noise})
                starts, counts, pairs = (
                    mine + np.array(json.loads(theirs), dtype=np.int64)
                    for mine, theirs in ((starts, old.starts), (counts, old.counts), (pairs, old.pairs))
                )
            new.append(
                {
                    "stream": stream,
                    "block": block,
                    "device": one.device,
                    "noise": one.noise,
                    "ticks": one.ticks + (old.ticks if old else 0),
                    "starts": json.dumps(starts.tolist()),
                    "counts": json.dumps(counts.tolist()),
                    "pairs": json.dumps(pairs.tolist()),
                    "variance": one.variance + (old.variance if old else 0.0),
                }
            )
        if grown:
            mine_ = and_(
                statistic_k.c.device == bindparam("of_device"), statistic_k.c.noise == bindparam("of_noise")
            )
            db.execute(delete(statistic_k).where(here, mine_), grown)
        if new:
            db.execute(insert(statistic_k), new)

    def found(self, db: Connection, stream: str, *, since: int) -> FoundK | None:
        """The fit of the blocks from `since` on; None where there is too little."""
        rows = db.execute(
            select(statistic_k, setting.c.noise.label("written"))
            .where(
                statistic_k.c.stream == stream,
                statistic_k.c.block >= since,
                setting.c.stream == stream,
                setting.c.version == statistic_k.c.noise,
            )
            .order_by(statistic_k.c.device, statistic_k.c.noise, statistic_k.c.block)
        ).all()
        if not rows:
            return None
        devices = tuple(dict.fromkeys(row.device for row in rows))
        index = {device: number for number, device in enumerate(devices)}
        evidence = EvidenceK(
            devices,
            np.array([index[row.device] for row in rows], dtype=np.int64),
            np.array([read(row.written) for row in rows], dtype=float),
            np.array([row.ticks for row in rows], dtype=float),
            np.array([json.loads(row.counts) for row in rows], dtype=float),
            np.array([json.loads(row.starts) for row in rows], dtype=float),
            np.array([json.loads(row.pairs) for row in rows], dtype=float),
            np.array([row.variance for row in rows], dtype=float),
        )
        fitted = fit(evidence)
        return None if fitted is None else FoundK(evidence, fitted)

    def read(self, row: Row[tuple[object, ...]]) -> Class:
        """The class of a belief."""
        theta = IntervalTheta.model_validate_json(row.chains)
        if theta.backward is None:
            raise RuntimeError("a belief holds both directions")
        return Class(theta.intervals, theta.backward.intervals)

    def written(self, believed: Class) -> dict[str, object]:
        """The columns of a belief."""
        return {"chains": theta_of(believed).model_dump_json()}

    def slowed(self, theta: Class, lasting: Sequence[float]) -> Class:
        """The chains of Θ with the shares that last covered."""
        return misfit_k.slowed(theta, lasting)

    def with_doubt(self, believed: Class) -> Class:
        """The chains that are not excluded beyond doubt."""
        return Class(*(region_k.with_doubt(each) for each in (believed.forward, believed.backward)))

    def anything(self, like: Class) -> Class:
        """A belief that excludes nothing."""
        k = range(like.k)
        all_ = Intervals(tuple(tuple(0.0 for _ in k) for _ in k), tuple(tuple(1.0 for _ in k) for _ in k))
        return Class(all_, all_)


MORE = More()
