"""How far data is from a first-order chain, by band of lags, whatever the number of states.

For every band the observed correlation is compared with the one that the devices' fitted chains predict, averaged over
what is not known of them: a mixture of chains is no misfit. A significant excess is described by the share e of the
correlation that persists over those lags while the rest decays as the chain does: Λ becomes Λ + e·(1−Λ).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.lag_bands import BANDS

Floats = NDArray[np.float64]

ERROR = 0.005
"""The probability with which first-order chains are taken for a misfit, where the test is made once."""
LONG = 5
"""The first of the long lags, at which an undetected misfit matters."""
UNSEEN = 100.0
"""A standard error beyond this is that of a band for which no window was long enough."""


@dataclass(frozen=True, slots=True)
class Band:
    """The correlation over a band of lags: observed, predicted by the fitted chains, and its standard error.

    An excess of up to `critical` standard errors is put down to chance.
    """

    first: int
    last: int
    seen: float
    fitted: float
    error: float
    critical: float

    @property
    def excess(self) -> float:
        """How far the observed correlation exceeds the fitted one where that is significant; else 0."""
        over = self.seen - self.fitted
        return over if over > self.critical * self.error else 0.0

    @property
    def persistent_share(self) -> float:
        """The share e that makes the fitted correlation Λ the observed one, Λ + e·(1−Λ); 0 if not significant."""
        return min(1.0, self.excess / (1 - self.fitted)) if self.excess else 0.0


@dataclass(frozen=True, slots=True)
class Misfit:
    """All bands, and the shift towards slower chains that covers their excess: 0 where there is none."""

    bands: tuple[Band, ...]
    shift: float

    @property
    def persistent_shares(self) -> tuple[float, ...]:
        """The persistent share of every band."""
        return tuple(band.persistent_share for band in self.bands)

    @property
    def undetectable(self) -> float:
        """The largest excess at long lags that would not be significant, in bands that windows are long enough for."""
        seen = (band for band in self.bands if band.first >= LONG and band.error < UNSEEN)
        return max((band.critical * band.error for band in seen), default=0.0)

    @property
    def worst(self) -> Band | None:
        """The band with the largest excess; None where there is none."""
        found = max(self.bands, key=lambda band: band.excess)
        return found if found.excess else None


def critical_value(error: float, bands: int = len(BANDS)) -> float:
    """The standard errors that chance exceeds, upwards and in any of the bands, with at most this probability.

    Taken as normal, which the noise on five numbers (pufferfish/noise/joint_noise.py) nearly is: its kurtosis is
    9/5·(d+3)(d+4)/((d+1)(d+2)) for d numbers, 3.09 for five.
    """
    return NormalDist().inv_cdf(1 - error / bands)


def pooled_bands(
    seen: Floats,
    fitted: Floats,
    weight: Floats,
    critical: float,
    deviation: Floats | float = 0.0,
    bands: Sequence[tuple[int, int]] = BANDS,
) -> tuple[Band, ...]:
    """Rows of correlations, one column per band, pooled by weight; `deviation` is that of what is fitted."""
    total = weight.sum(axis=0)
    columns = ((weight * seen).sum(axis=0) / total, (weight * fitted).sum(axis=0) / total)
    errors = np.sqrt(1 / total + np.square(deviation))
    return tuple(
        Band(*ends, float(a), float(c), float(e), critical)
        for ends, a, c, e in zip(bands, *columns, errors, strict=True)
    )
