"""A window of more than two states: its counts and pairs, the statistics and the histogram drawn from them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sqlalchemy import Connection

from hushmq.calibrator.learning import learn_window as learn
from hushmq.calibrator.learning.pending_statistics import Counted
from hushmq.calibrator.ledger.audience_timelines import scale_for
from hushmq.calibrator.models.binary.binary_statistics import runs
from hushmq.calibrator.models.categorical.categorical_statistics import SumsK
from hushmq.calibrator.models.categorical_model import MORE
from hushmq.calibrator.models.chain_model import AnyNoise
from hushmq.calibrator.models.draw_noise import noisy, variance
from hushmq.calibrator.models.histogram import Histogram, Pieces, nearest_distribution
from hushmq.calibrator.models.window_parts import Part, whole


class CountK:
    """Sums by device and noise version."""

    def __init__(self, k: int, pieces: Pieces) -> None:
        self._k = k
        self._sums: dict[tuple[str, int], SumsK] = {}
        for key, found in pieces.items():
            self._sums[key] = SumsK(k)
            for run in runs(sorted(found)):
                self._sums[key].add(run)

    @property
    def devices(self) -> list[str]:
        return sorted({device for device, _ in self._sums})

    def learn(self, db: Connection, stream: str, *, tilt: int) -> None:
        """Hand the sums to learning, which draws their noise when it next looks."""
        learn.note(
            db,
            stream,
            [
                Counted(device, version, one.ticks, one.starts, one.groups)
                for (device, version), one in self._sums.items()
            ],
            tilt=tilt,
            learner=MORE,
        )

    def histogram(self, noises: Mapping[int, AnyNoise], *, tilt: int, device: str | None = None) -> Histogram:
        """The noisy counts and their debiased frequencies.

        Changing one state moves two bins by one: 2/scale. Each noise version's states are counted apart, with noise of
        their own: the counts are of disjoint states, so one state still costs that once.
        """
        scale = scale_for(2, tilt)
        sums = {key: one for key, one in self._sums.items() if device in {None, key[0]}}
        versions = sorted({version for _, version in sums})
        ticks = [sum(one.ticks for (_, version), one in sums.items() if version == v) for v in versions]
        exact = [
            np.sum([one.counts for (_, version), one in sums.items() if version == v], axis=0)
            for v in versions
        ]
        counts, total = self._noisy(exact, scale), sum(ticks)
        found = whole(
            [_part(noises[v], n, seen, scale) for v, n, seen in zip(versions, ticks, counts, strict=True)]
        )
        return Histogram(
            devices=len({key[0] for key in sums}),
            ticks=total,
            counts=tuple(int(one) for one in counts.sum(axis=0)),
            frequencies=found.frequencies,
            standard_errors=found.standard_errors,
            half_widths=found.half_widths,
            scale=scale,
        )

    @staticmethod
    def _noisy(exact: list[np.ndarray], scale: float) -> np.ndarray:
        flat = np.array(exact, dtype=np.int64)
        return np.array(noisy(flat.ravel().tolist(), scale=scale), dtype=np.int64).reshape(flat.shape)


def _part(noise: AnyNoise, ticks: int, counts: np.ndarray, scale: float) -> Part:
    """The shares are f = p·B⁻¹, where the sanitized states have shares p = f·B.

    Given the true states, one tick in state u adds Σ_z B[u][z]·B⁻¹[z][j]² − (1 if u = j else 0) to the variance of what
    is counted for j.
    """
    emission = np.array(noise)
    inverse = np.linalg.inv(emission)
    shares = counts @ inverse / ticks
    each = np.maximum(emission @ inverse**2 - np.eye(len(emission)), 0.0)
    drawn = variance(scale) * (inverse**2).sum(axis=0) / ticks**2
    return Part(
        ticks,
        shares.tolist(),
        (np.array(nearest_distribution(shares)) @ each / ticks).tolist(),
        (each.max(axis=0) / ticks).tolist(),
        drawn.tolist(),
    )
