"""A window of more than two states: its counts and pairs, the statistics and the histogram drawn from them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sqlalchemy import Connection

from calibrator import learn
from calibrator.charge import scale_for
from calibrator.histogram import Histogram, Pieces
from calibrator.kind import AnyNoise
from calibrator.learn_k import MORE, StatisticK
from calibrator.noise import noisy, variance
from calibrator.statistics import BANDS, COARSENESS, WIDTHS, bands_within, runs
from calibrator.statistics_k import SumsK, sensitivity
from pufferfish.half_width import half_width


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

    def learn(self, db: Connection, stream: str, *, ticks: int, tilt: int) -> None:
        """Add the charged noise, a band's as much wider as the band is, and hand the statistics to learning."""
        scale = scale_for(sensitivity(ticks), tilt)
        members, k = list(self._sums.items()), self._k
        counts = self._noisy([one.counts for _, one in members], scale)
        pairs = np.zeros((len(members), len(BANDS), k, k), dtype=np.int64)
        for band in range(bands_within(ticks)):
            wide = scale * WIDTHS[band] * COARSENESS[band]
            pairs[:, band] = self._noisy([one.pairs[band] for _, one in members], wide)
        learn.note(
            db,
            stream,
            [
                StatisticK(device, version, one.ticks, counts[index], np.array(one.starts), pairs[index])
                for index, ((device, version), one) in enumerate(members)
            ],
            variance=variance(scale),
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
        # x̂ = Σ counts·B⁻¹, and of the variance of a count n·(diag(p) − p·pᵀ) + noise·I what comes through B⁻¹
        estimate, sampling, drawn = (np.zeros(self._k) for _ in range(3))
        for version, n, seen in zip(versions, ticks, counts, strict=True):
            inverse = np.linalg.inv(np.array(noises[version]))
            p = np.maximum(seen, 0) / max(1, np.maximum(seen, 0).sum())
            estimate += seen @ inverse
            sampling += n * np.maximum(p @ inverse**2 - (p @ inverse) ** 2, 0.0)
            drawn += variance(scale) * (inverse**2).sum(axis=0)
        return Histogram(
            devices=len({key[0] for key in sums}),
            ticks=total,
            counts=tuple(int(one) for one in counts.sum(axis=0)),
            frequencies=tuple((estimate / total).tolist()),
            standard_errors=tuple((np.sqrt(sampling + drawn) / total).tolist()),
            half_widths=tuple(
                half_width(float(a), float(b)) / total for a, b in zip(sampling, drawn, strict=True)
            ),
            scale=scale,
        )

    @staticmethod
    def _noisy(exact: list[np.ndarray], scale: float) -> np.ndarray:
        flat = np.array(exact, dtype=np.int64)
        return np.array(noisy(flat.ravel().tolist(), scale=scale), dtype=np.int64).reshape(flat.shape)
