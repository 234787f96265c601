"""Mean and covariance of the counted statistics, for a binary chain seen through noise. Exact, in closed form.

X is a stationary chain with π1 = q/(q+r) and λ = 1−q−r; Z is X through (ρ0, ρ1), s = 1−ρ0−ρ1. Write
μ = E Z = ρ0 + s·π1, σ² = μ(1−μ), κ = 1−2μ, α = s·√(π0·π1) and c = (π0−π1)/√(π0·π1). The
centred U = Z−μ has, at distinct ticks t1 < t2 < t3 < t4,

    E U1·U2 = α²·λ^(t2−t1),   E U1·U2·U3 = α³·c·λ^(t3−t1),
    E U1·U2·U3·U4 = α⁴·λ^(t2−t1+t4−t3)·(1 + c²·λ^(t3−t2)),

because the standardised state e satisfies e² = 1 + c·e; and U² = σ² + κ·U because Z is a bit. From these follow
the mean and the long-run covariance of Ū and of the products P_h = mean of U_t·U_{t+h}, and since

    [Z_t ≠ Z_{t+h}] = 2σ² + κ·(U_t + U_{t+h}) − 2·U_t·U_{t+h}

also those of the share of ones and of the shares of changes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.lag_bands import BANDS, WIDTHS

Floats = NDArray[np.float64]

STATISTICS = 1 + len(BANDS)
"""The share of ones and a share of changes per band."""
STEEPEST = 0.9995
"""|λ| beyond which the covariance of the limit is used instead."""
_GRID = np.sort(
    np.concatenate([-np.tanh(np.linspace(0.0, 4.5, 60))[1:], np.tanh(np.linspace(0.0, 4.5, 240))])
)


class Shape(NamedTuple):
    """Means over bands that depend on λ alone; one leading axis for the values of λ."""

    ones: Floats  # Σ_d of the three-point products' λ^span
    fourth: Floats  # the α⁴ part of Cov(P, P)
    skewed: Floats  # the α⁴·c² part
    shared: Floats  # the α²·σ² part
    tilted: Floats  # the α³·c·κ part


def mean(pi1: Floats, lam: Floats, rho0: Floats, rho1: Floats) -> tuple[Floats, Floats]:
    """The expected statistics, and in the last axis their derivatives by π1 and λ."""
    s = 1 - rho0 - rho1
    mu = rho0 + s * pi1
    power, slope = band_powers(lam)
    v = (s * s * pi1 * (1 - pi1))[..., None]
    expected = np.concatenate([mu[..., None], 2 * ((mu * (1 - mu))[..., None] - v * power)], axis=-1)
    by_pi1 = np.concatenate(
        [s[..., None], 2 * (s * (1 - 2 * mu))[..., None] - 2 * (s * s * (1 - 2 * pi1))[..., None] * power],
        axis=-1,
    )
    by_lam = np.concatenate([np.zeros_like(mu)[..., None], -2 * v * slope], axis=-1)
    return expected, np.stack([by_pi1, by_lam], axis=-1)


def band_powers(lam: Floats) -> tuple[Floats, Floats]:
    """The mean of λ^h over each band a … b, (λ^a − λ^(b+1))/((1−λ)·width), and its derivative."""
    x, rest = lam[..., None], 1 - lam[..., None]
    below, above = x ** (_FIRST - 1), x**_LAST
    power = (below - above) * x / (rest * _WIDTH)
    slope = (_FIRST * below - (_LAST + 1) * above) / (rest * _WIDTH) + power / rest
    return power, slope


_FIRST, _LAST = (np.array(ends, dtype=np.int64) for ends in zip(*BANDS, strict=True))
_WIDTH = np.array(WIDTHS, dtype=float)


def covariance(pi1: Floats, lam: Floats, rho0: Floats, rho1: Floats) -> Floats:
    """Long-run covariance of the statistics: n times the covariance of their means over n ticks, n large."""
    lam, s = np.clip(lam, -STEEPEST, STEEPEST), 1 - rho0 - rho1
    mu = rho0 + s * pi1
    sigma2, kappa = mu * (1 - mu), 1 - 2 * mu
    deviation = np.sqrt(pi1 * (1 - pi1))
    alpha, c = s * deviation, (1 - 2 * pi1) / deviation
    shape = _interpolated(lam)
    power, _ = band_powers(lam)

    def wide(x: Floats) -> Floats:
        return x[..., None, None]

    products = (
        wide(alpha**4) * (shape.fourth + wide(c * c) * shape.skewed)
        + wide(alpha**2 * sigma2) * shape.shared
        + wide(alpha**3 * c * kappa) * shape.tilted
    )
    # The two terms of U² = σ² + κ·U at both ends, where a lag meets itself: (σ² + κU)(σ² + κU′).
    itself = (sigma2**2)[..., None] + (kappa**2 * alpha**2)[..., None] * power
    diagonal = np.arange(len(BANDS))
    products[..., diagonal, diagonal] += itself / _WIDTH
    first = sigma2 + 2 * alpha**2 * lam / (1 - lam)
    cross = (alpha**3 * c)[..., None] * shape.ones + (2 * kappa * alpha**2)[..., None] * power
    # changes = 2σ² + 2κ·Ū − 2·P
    result = np.empty((*lam.shape, STATISTICS, STATISTICS))
    k = 2 * kappa[..., None]
    result[..., 0, 0] = first
    result[..., 0, 1:] = result[..., 1:, 0] = k * first[..., None] - 2 * cross
    result[..., 1:, 1:] = (
        wide(4 * kappa**2 * first)
        + 4 * products
        - 2 * k[..., None] * (cross[..., None, :] + cross[..., :, None])
    )
    return result


def _interpolated(lam: Floats) -> Shape:
    table = _table()
    right = np.clip(np.searchsorted(_GRID, lam), 1, len(_GRID) - 1)
    share = (lam - _GRID[right - 1]) / (_GRID[right] - _GRID[right - 1])
    return Shape(
        *(
            column[right - 1]
            + share.reshape(share.shape + (1,) * (column.ndim - 1)) * (column[right] - column[right - 1])
            for column in table
        )
    )


@lru_cache(maxsize=1)
def _table() -> Shape:
    parts = [shape(float(lam)) for lam in _GRID]
    return Shape(*(np.stack(column) for column in zip(*parts, strict=True)))


def shape(lam: float) -> Shape:
    """The parts that depend on λ alone, summed over all offsets between two products and averaged over bands."""
    lags = np.arange(1, BANDS[-1][1] + 1)
    h, k = np.minimum.outer(lags, lags), np.maximum.outer(lags, lags)
    d = k - h
    x = lam * lam
    same = d == 0
    beyond = lam / (1 - lam)
    # Offsets with one pair wholly outside the other: 2·Σ_{g≥1} c²·λ^(h+k+g).
    # Offsets that share a junction (two) or an end (two, or one where h = k), interleaved (2(h−1)), nested (k−h−1).
    inner = np.where(h > 1, x * (1 - x ** (h - 1)) / (1 - x), 0.0)
    steps = np.where(h > 1, lam * (1 - lam ** (h - 1.0)) / (1 - lam), 0.0)
    nested = np.maximum(d - 1, 0)
    ends = np.where(same, 1, 2)
    offsets = 2 + ends + 2 * (h - 1) + nested
    fourth = 2 * lam**d * inner + nested * lam**d - offsets * lam ** (h + k)
    skewed = 2 * lam ** (h + k) * beyond + 2 * lam**k * steps + nested * lam**d * lam**h
    shared = 2 * lam ** (h + k) + np.where(same, 0.0, 2 * lam**d)
    tilted = 2 * lam ** (h + k) + np.where(same, 0.0, 2 * lam**k)
    three = lam**lags * (2 * beyond + lags - 1)
    average = np.stack(
        [np.where((lags >= first) & (lags <= last), 1 / (last - first + 1), 0.0) for first, last in BANDS]
    )
    return Shape(
        average @ three,
        *(average @ part.astype(float) @ average.T for part in (fourth, skewed, shared, tilted)),
    )
