"""How far data of two states is from a first-order chain: correlation over long lags beyond what fitted chains have.

Where the excess of a band is significant (calibrator/models/misfit.py), the chain that has the observed correlation at
those lags is more correlated than the fitted one by a `shift` of b = logit((q+r)/2). Θ covers it by what the excess
says of any chain: a slow chain, which has much of that correlation already, needs less of a shift than a fast one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hushmq.calibrator.models.binary.binary_evidence import BinaryEvidence
from hushmq.calibrator.models.binary.binary_fit import BinaryFit, BinaryShares, chain
from hushmq.calibrator.models.binary.binary_moments import Floats, band_powers, covariance
from hushmq.calibrator.models.device_spread import HIGHEST, LOWEST
from hushmq.calibrator.models.lag_bands import BANDS
from hushmq.calibrator.models.misfit import ERROR, Band, Misfit, critical_value, pooled_bands
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

NODES, _weights = np.polynomial.hermite_e.hermegauss(9)
WEIGHTS = _weights / _weights.sum()


def measure(evidence: BinaryEvidence, found: BinaryFit, error: float = ERROR) -> Misfit:
    """Compare the observed correlation with that of the fitted chains, pooled over devices by precision.

    First-order chains are taken for a misfit with at most the probability `error`.
    """
    observed = BinaryShares.of(evidence)
    pi1, lam = (values[evidence.device] for values in chain(found.chains))
    s = 1 - evidence.rho0 - evidence.rho1
    mu = evidence.rho0 + s * pi1
    strength = (2 * s * s * pi1 * (1 - pi1))[:, None]
    seen = (2 * (mu * (1 - mu))[:, None] - observed.shares[:, 1:]) / strength
    sampling = covariance(pi1, lam, evidence.rho0, evidence.rho1)[
        :, range(1, len(BANDS) + 1), range(1, len(BANDS) + 1)
    ]
    weight = strength**2 / (sampling / observed.roots[:, 1:] ** 2 + observed.charged[:, 1:])
    # E Λ(b) over the posterior of each device's b
    b = np.clip(
        found.chains[:, 1:] + np.sqrt(found.covariances[:, 1, 1])[:, None] * NODES, LOWEST[1], HIGHEST[1]
    )
    fitted = np.einsum("dnb,n->db", band_powers(1 - 2 / (1 + np.exp(-b)))[0], WEIGHTS)[evidence.device]
    bands = pooled_bands(seen, fitted, weight, critical_value(error))
    return Misfit(bands, min(0.0, *(_shift(index, band) for index, band in enumerate(bands))))


def _shift(index: int, band: Band) -> float:
    if not band.excess:
        return 0.0
    return _b_of(index, band.seen) - _b_of(index, band.fitted)


def _b_of(index: int, correlation: float) -> float:
    """The b whose chain has this mean correlation over a band, up to the limits of what is fitted."""
    grid: Floats = np.linspace(-7.5, 0.0, 1501)
    powers = band_powers(1 - 2 / (1 + np.exp(-grid)))[0][:, index]
    return float(np.interp(-correlation, -powers, grid))


def slowed(theta: BinaryTheta, shares: Sequence[float]) -> BinaryTheta:
    """Θ between its slowest and its fastest chain, each slowed at the same π1 until it has these persistent shares."""
    ends = [_moved(theta.q_low, theta.r_low, shares), _moved(theta.q_high, theta.r_high, shares)]
    (q_low, q_high), (r_low, r_high) = (sorted(one) for one in zip(*ends, strict=True))
    return BinaryTheta(q_low, q_high, r_low, r_high)


def _moved(q: float, r: float, shares: Sequence[float]) -> tuple[float, float]:
    """The chain with the same π1 whose correlation over every band is at least this one's with its persistent share."""
    half = (q + r) / 2
    own = band_powers(np.array(1 - 2 * half))[0]
    wanted = [float(one + e * (1 - one)) for one, e in zip(own, shares, strict=True)]
    b = min([_b_of(index, wanted[index]) for index, e in enumerate(shares) if e > 0])
    factor = min(1.0, 1 / (1 + math.exp(-b)) / half)
    return q * factor, r * factor
