"""Charged statistics of two states as arrays: the evidence that a fit uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.binary.binary_moments import Floats
from hushmq.calibrator.models.sufficient_statistics import NoisyStatistics
from hushmq.pufferfish.binary.binary_noise import BinaryNoise


@dataclass(frozen=True, slots=True)
class BinaryEvidence:
    """Charged statistics, one row per device and noise version, as arrays.

    `variance` is that of the noise on `ones`, summed over draws; on a band it is that times the square of its reach.
    """

    devices: tuple[str, ...]
    device: NDArray[np.int64]
    rho0: Floats
    rho1: Floats
    ticks: Floats
    ones: Floats
    starts: Floats
    changes: Floats
    variance: Floats

    @classmethod
    def of(cls, rows: Sequence[tuple[NoisyStatistics, BinaryNoise]]) -> BinaryEvidence:
        """The statistics, each with the noise it was counted behind, in the order given."""
        devices = tuple(dict.fromkeys(one.device for one, _ in rows))
        index = {device: number for number, device in enumerate(devices)}
        return cls(
            devices,
            np.array([index[one.device] for one, _ in rows], dtype=np.int64),
            np.array([noise.rho0 for _, noise in rows]),
            np.array([noise.rho1 for _, noise in rows]),
            np.array([one.ticks for one, _ in rows], dtype=float),
            np.array([one.groups[0][0] for one, _ in rows], dtype=float),
            np.array([one.starts for one, _ in rows], dtype=float),
            np.array([[changes for (changes,) in one.groups[1:]] for one, _ in rows], dtype=float),
            np.array([one.variance for one, _ in rows], dtype=float),
        )

    def together(self) -> BinaryEvidence:
        """The same evidence as if one device had sent all of it: one row per noise setting."""
        _, rows = np.unique(np.stack([self.rho0, self.rho1]), axis=1, return_inverse=True)
        rows = rows.reshape(-1)
        size = int(rows.max(initial=-1)) + 1

        def summed(values: Floats) -> Floats:
            total = np.zeros((size, *values.shape[1:]))
            np.add.at(total, rows, values)
            return total

        def one_of(values: Floats) -> Floats:
            kept = np.zeros(size)
            kept[rows] = values
            return kept

        return BinaryEvidence(
            ("all",),
            np.zeros(size, dtype=np.int64),
            one_of(self.rho0),
            one_of(self.rho1),
            *(summed(values) for values in (self.ticks, self.ones, self.starts, self.changes, self.variance)),
        )
