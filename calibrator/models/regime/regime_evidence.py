"""Charged statistics at long lags as arrays, and what is estimated from them: shares of ones and autocovariances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.regime.long_bands import strided_bands
from hushmq.calibrator.models.regime.regime_moments import Floats, SeenChains, covariance, mean_variance
from hushmq.calibrator.models.sufficient_statistics import NoisyStatistics
from hushmq.pufferfish.binary.binary_noise import BinaryNoise

_NO_WEIGHT = 1e9
"""The variance of what was not counted: so large that it has no weight."""


@dataclass(frozen=True, slots=True)
class RegimeEvidence:
    """One row per device, noise version and stride.

    `variance` is that of the noise on `ones`, summed over draws; on a band it is that times the square of its reach.
    """

    devices: tuple[str, ...]
    device: NDArray[np.int64]
    rho0: Floats
    rho1: Floats
    stride: NDArray[np.int64]
    ticks: Floats
    ones: Floats
    starts: Floats
    changes: Floats
    variance: Floats

    @classmethod
    def of(cls, rows: Sequence[tuple[NoisyStatistics, BinaryNoise, int]]) -> RegimeEvidence:
        """The statistics, each with the noise and the stride it was counted behind, in the order given."""
        devices = tuple(dict.fromkeys(one.device for one, _, _ in rows))
        index = {device: number for number, device in enumerate(devices)}
        return cls(
            devices,
            np.array([index[one.device] for one, _, _ in rows], dtype=np.int64),
            np.array([noise.rho0 for _, noise, _ in rows]),
            np.array([noise.rho1 for _, noise, _ in rows]),
            np.array([stride for _, _, stride in rows], dtype=np.int64),
            np.array([one.ticks for one, _, _ in rows], dtype=float),
            np.array([one.groups[0][0] for one, _, _ in rows], dtype=float),
            np.array([one.starts for one, _, _ in rows], dtype=float),
            np.array([[changes for (changes,) in one.groups[1:]] for one, _, _ in rows], dtype=float),
            np.array([one.variance for one, _, _ in rows], dtype=float),
        )

    @property
    def signal(self) -> Floats:
        """The share of a bit that comes through, by row."""
        return 1 - self.rho0 - self.rho1

    def lags(self, name: str) -> Floats:
        """`first`, `last` or `lags` of the bands of each row."""
        strides, each = np.unique(self.stride, return_inverse=True)
        table = [getattr(strided_bands(int(stride)), name) for stride in strides]
        found: Floats = np.array(table, dtype=float)[each]
        return found

    def seen(self, ones: Floats, weights: Floats, rates: Floats, skews: Floats) -> SeenChains:
        """Chains of the devices, as each row sees them."""
        each = self.device
        return SeenChains(
            ones[each],
            weights[each],
            rates[each],
            skews[each],
            self.rho0,
            self.rho1,
            self.stride.astype(float),
            *(self.lags(name) for name in ("first", "last", "lags")),
        )

    def shares(self) -> Floats:
        """The unbiased share of ones of each row; it may lie outside of 0 … 1."""
        found: Floats = (self.ones / np.maximum(self.ticks, 1.0) - self.rho0) / self.signal
        return found

    def share_variances(self, seen: SeenChains) -> Floats:
        """Of those shares, if these are the chains."""
        ticks = np.maximum(self.ticks, 1.0)
        found: Floats = (mean_variance(seen, ticks) + self.variance / ticks**2) / self.signal**2
        return found

    def autocovariances(self, seen: SeenChains) -> tuple[Floats, Floats]:
        """Of the bits, by row and band, and their covariances, if these are the chains."""
        ticks, lags = np.maximum(self.ticks, 1.0), np.maximum(self.lags("lags"), 1.0)
        counted = self.starts > 0
        starts = np.where(counted, self.starts, 1.0)
        z = self.ones / ticks
        lost = mean_variance(seen, ticks) + self.variance / ticks**2
        found = (z * (1 - z) + lost)[:, None] - self.changes / starts / lags / 2
        roots = np.sqrt(starts)
        spread = covariance(seen)[:, 1:, 1:] / (roots[:, :, None] * roots[:, None, :])
        spread += ((1 - 2 * z) ** 2 * self.variance / ticks**2)[:, None, None]
        both = counted[:, :, None] & counted[:, None, :]
        spread = np.where(both, spread, 0.0)
        bands = np.arange(lags.shape[1])
        spread[:, bands, bands] += np.where(counted, (self.variance[:, None]) / starts**2, _NO_WEIGHT)
        scale = self.signal**2
        return np.where(counted, found, 0.0) / scale[:, None], spread / (scale**2)[:, None, None]
