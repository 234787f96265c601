"""Charged statistics of k states as arrays: the evidence that a fit uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.categorical.categorical_moments import Floats
from hushmq.calibrator.models.sufficient_statistics import NoisyStatistics
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise


@dataclass(frozen=True, slots=True)
class CategoricalEvidence:
    """Charged statistics, one row per device and noise version, as arrays.

    `variance` is that of the noise on one of `counts`, summed over windows; on a band it is that times
    (width·coarseness)².
    """

    devices: tuple[str, ...]
    device: NDArray[np.int64]
    emission: Floats
    ticks: Floats
    counts: Floats
    starts: Floats
    pairs: Floats
    variance: Floats

    @classmethod
    def of(cls, rows: Sequence[tuple[NoisyStatistics, CategoricalNoise]]) -> CategoricalEvidence:
        """The statistics, each with the noise it was counted behind, in the order given; at least one row."""
        devices = tuple(dict.fromkeys(one.device for one, _ in rows))
        index = {device: number for number, device in enumerate(devices)}
        k = rows[0][1].states
        return cls(
            devices,
            np.array([index[one.device] for one, _ in rows], dtype=np.int64),
            np.array([noise.rows for _, noise in rows], dtype=float),
            np.array([one.ticks for one, _ in rows], dtype=float),
            np.array([one.groups[0] for one, _ in rows], dtype=float),
            np.array([one.starts for one, _ in rows], dtype=float),
            np.array([one.groups[1:] for one, _ in rows], dtype=float).reshape(len(rows), -1, k, k),
            np.array([one.variance for one, _ in rows], dtype=float),
        )

    @property
    def k(self) -> int:
        return int(self.emission.shape[-1])

    def together(self) -> CategoricalEvidence:
        """The same evidence as if one device had sent all of it: one row per emission."""
        kept, rows = np.unique(self.emission.reshape(len(self.emission), -1), axis=0, return_inverse=True)
        rows = rows.reshape(-1)

        def summed(values: Floats) -> Floats:
            total = np.zeros((len(kept), *values.shape[1:]))
            np.add.at(total, rows, values)
            return total

        return CategoricalEvidence(
            ("all",),
            np.zeros(len(kept), dtype=np.int64),
            kept.reshape(-1, self.k, self.k),
            *(summed(values) for values in (self.ticks, self.counts, self.starts, self.pairs, self.variance)),
        )
