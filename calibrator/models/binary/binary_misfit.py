"""How far the data is from a first-order chain: correlation over long lags beyond what the fitted chains have.

For every band of lags, the correlation seen is compared with the one that the devices' own fitted chains predict,
averaged over what is not known of them: a mixture of chains is no misfit. Where a band's excess is beyond doubt,
the chain that has the correlation seen at those lags is more correlated than the fitted one by a `shift` of
b = logit((q+r)/2).

Θ covers it by what the excess says of any chain: a share e of it lasts over those lags while the rest goes on as the
chain does, so that a correlation Λ becomes Λ + e·(1−Λ). A slow chain, which has much of that already, needs less of a
shift than a fast one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from hushmq.calibrator.models.binary.binary_fit import Evidence, Fit, Observed, chain
from hushmq.calibrator.models.binary.binary_moments import Floats, band_powers, covariance
from hushmq.calibrator.models.binary.binary_statistics import BANDS
from hushmq.calibrator.models.device_spread import HIGHEST, LOWEST
from hushmq.pufferfish.binary.stream_loss import Box

ERROR = 0.005
"""The probability with which chains of first order may be taken for a misfit, where they are looked at once."""
NODES, _weights = np.polynomial.hermite_e.hermegauss(9)
WEIGHTS = _weights / _weights.sum()
LONG = 5
"""The first lag of those that a misfit is feared at."""
UNSEEN = 100.0
"""A standard error beyond this is that of a band which no window was long enough for."""


@dataclass(frozen=True, slots=True)
class Band:
    """The correlation over a band of lags: seen, predicted by the fitted chains, and its standard error.

    `doubt` is how many standard errors of an excess are put down to chance.
    """

    first: int
    last: int
    seen: float
    fitted: float
    error: float
    doubt: float

    @property
    def excess(self) -> float:
        """How far the correlation seen exceeds the fitted one, where that is beyond doubt; else 0."""
        over = self.seen - self.fitted
        return over if over > self.doubt * self.error else 0.0

    @property
    def lasting(self) -> float:
        """The share e that makes the fitted correlation Λ the one seen, Λ + e·(1−Λ), where it is beyond doubt."""
        return min(1.0, self.excess / (1 - self.fitted)) if self.excess else 0.0


@dataclass(frozen=True, slots=True)
class Misfit:
    """All bands, and the shift of b that covers their excess: 0 where there is none."""

    bands: tuple[Band, ...]
    shift: float

    @property
    def lasting(self) -> tuple[float, ...]:
        """Of every band, the share that lasts."""
        return tuple(band.lasting for band in self.bands)

    @property
    def hidden(self) -> float:
        """The excess that the evidence would not show at long lags, in any band that windows are long enough for."""
        seen = (band for band in self.bands if band.first >= LONG and band.error < UNSEEN)
        return max((band.doubt * band.error for band in seen), default=0.0)

    @property
    def worst(self) -> Band | None:
        """The band with the largest excess; None where there is none."""
        found = max(self.bands, key=lambda band: band.excess)
        return found if found.excess else None


def doubt(error: float) -> float:
    """The standard errors that chance exceeds, upwards and in any of the bands, with at most this probability.

    Taken as normal, which the noise on five numbers (pufferfish/noise/joint_noise.py) nearly is: its kurtosis is
    9/5·(d+3)(d+4)/((d+1)(d+2)) for d numbers, 3.09 for five.
    """
    return NormalDist().inv_cdf(1 - error / len(BANDS))


def measure(evidence: Evidence, found: Fit, error: float = ERROR) -> Misfit:
    """Compare the correlation seen with the fitted chains, pooled over devices by precision.

    With at most the probability `error` chains of first order are taken for a misfit.
    """
    observed = Observed.of(evidence)
    pi1, lam = (values[evidence.device] for values in chain(found.chains))
    s = 1 - evidence.rho0 - evidence.rho1
    mu = evidence.rho0 + s * pi1
    strength = (2 * s * s * pi1 * (1 - pi1))[:, None]
    seen = (2 * (mu * (1 - mu))[:, None] - observed.shares[:, 1:]) / strength
    sampling = covariance(pi1, lam, evidence.rho0, evidence.rho1)[
        :, range(1, len(BANDS) + 1), range(1, len(BANDS) + 1)
    ]
    weight = strength**2 / (sampling / observed.roots[:, 1:] ** 2 + observed.charged[:, 1:])
    # E Λ(b) over what is not known of each device's b
    b = np.clip(
        found.chains[:, 1:] + np.sqrt(found.covariances[:, 1, 1])[:, None] * NODES, LOWEST[1], HIGHEST[1]
    )
    fitted = np.einsum("dnb,n->db", band_powers(1 - 2 / (1 + np.exp(-b)))[0], WEIGHTS)[evidence.device]
    bands = pooled_bands(seen, fitted, weight, doubt(error))
    return Misfit(bands, min(0.0, *(_shift(index, band) for index, band in enumerate(bands))))


def pooled_bands(
    seen: Floats, fitted: Floats, weight: Floats, doubt_: float, vague: Floats | float = 0.0
) -> tuple[Band, ...]:
    """Rows of correlations, one column per band, pooled by weight; `vague` is the deviation of what is fitted."""
    total = weight.sum(axis=0)
    columns = ((weight * seen).sum(axis=0) / total, (weight * fitted).sum(axis=0) / total)
    errors = np.sqrt(1 / total + np.square(vague))
    return tuple(
        Band(*ends, float(a), float(c), float(e), doubt_)
        for ends, a, c, e in zip(BANDS, *columns, errors, strict=True)
    )


def _shift(index: int, band: Band) -> float:
    if not band.excess:
        return 0.0
    return _b_of(index, band.seen) - _b_of(index, band.fitted)


def _b_of(index: int, correlation: float) -> float:
    """The b whose chain has this mean correlation over a band, up to the limits of what is fitted."""
    grid: Floats = np.linspace(-7.5, 0.0, 1501)
    powers = band_powers(1 - 2 / (1 + np.exp(-grid)))[0][:, index]
    return float(np.interp(-correlation, -powers, grid))


def slowed(box: Box, lasting: Sequence[float]) -> Box:
    """The box between its slowest and its fastest chain, each moved, at the same π1, to cover the shares that last."""
    ends = [_moved(box.q_low, box.r_low, lasting), _moved(box.q_high, box.r_high, lasting)]
    (q_low, q_high), (r_low, r_high) = (sorted(one) for one in zip(*ends, strict=True))
    return Box(q_low, q_high, r_low, r_high)


def _moved(q: float, r: float, lasting: Sequence[float]) -> tuple[float, float]:
    """The chain with the same π1 whose correlation over every band is at least this one's with the share that lasts."""
    half = (q + r) / 2
    own = band_powers(np.array(1 - 2 * half))[0]
    wanted = [float(one + e * (1 - one)) for one, e in zip(own, lasting, strict=True)]
    b = min([_b_of(index, wanted[index]) for index, e in enumerate(lasting) if e > 0])
    factor = min(1.0, 1 / (1 + math.exp(-b)) / half)
    return q * factor, r * factor
