"""Mean and covariance of the counted statistics for a chain with regimes, seen through noise, every m-th tick.

The bits of a chain with regimes whose inner chains share λ_f have the autocovariance π0·π1·Σ_j w_j·λ_j^h: λ_0 = λ_f,
the others are the eigenvalues of the chain of regimes (calibrator/models/regime/regime_coordinates.py). Seen every
m-th tick through (ρ0, ρ1), s = 1−ρ0−ρ1, it is C(h) = Σ_j v_j·x_j^h with v_j = s²·π0·π1·w_j, x_j = λ_j^m.

Estimated is, from the mean z of the states and the share d of changes over a band, z·(1−z) − d/2. With U = Z − E Z it
is P − Ū², where P is the mean of U_t·U_{t+h} over the band, so its mean is that of C over the band less Var Ū, and its
covariance, to first order, that of P. For the covariance every component is taken as a two-valued chain of its own
(exact for one component, and for the regimes of two; the fast part within regimes is one only nearly). With
g = |h−k|, x = x_j and c the skewness of the component, the sums over all offsets between two products are

    of one component      v²·( A(g) − A(h+k) + c²·x^max(h,k)·((1+x)/(1−x) + g) ),
    of two, i ≠ j         v_i·v_j·( A_ij(g) + A_ij(h+k) ),    A_ij(g) = Σ_d x_i^|d|·x_j^|d+g|,

to which noise adds, where ticks of the two products coincide, what a bit's own variance exceeds that of its component
by: U² = σ² + κ·U with σ² = μ(1−μ), κ = 1−2μ. Against the closed forms for first-order chains, and against sums over
the hidden states of a chain with regimes, this is a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_APART = 1e-5
"""A_jj is the limit of A_ij as x_i → x_j: taken where 1−x differs by this share."""
_NODES = 8
"""Points at which sums over the lags of one band are evaluated that have no simple closed form."""


@dataclass(frozen=True, slots=True)
class SeenChains:
    """Rows of chains, each through its own noise and stride, and the bands in published ticks.

    `ones`: π1. `weights`, `rates`, `skews`: of the components, w_j, 1−λ_j and c_j; one column each. A band that is
    not counted has no lags.
    """

    ones: Floats
    weights: Floats
    rates: Floats
    skews: Floats
    rho0: Floats
    rho1: Floats
    stride: Floats
    first: Floats
    last: Floats
    lags: Floats

    @property
    def steps(self) -> Floats:
        """X_j."""
        return np.clip(
            np.exp(self.stride[:, None] * np.log1p(-np.minimum(self.rates, 1 - 1e-12))), 0.0, 1 - 1e-9
        )

    @property
    def signal(self) -> Floats:
        """The share s of a bit that comes through."""
        return 1 - self.rho0 - self.rho1


def geometric(x: Floats, lags: Floats) -> Floats:
    """The mean of 1, x, …, x^(lags−1); 1 for no lags."""
    many = np.maximum(lags, 1.0)
    found: Floats = -np.expm1(many * np.log(np.maximum(x, 1e-300))) / ((1 - x) * many)
    return found


def band_means(x: Floats, first: Floats, lags: Floats) -> Floats:
    """The mean of x^h over the lags of each band; the last axis of the result is that of the bands."""
    x = x[..., None]
    return np.exp(first * np.log(np.maximum(x, 1e-300))) * geometric(x, lags)


def covariance(seen: SeenChains) -> Floats:
    """Of (Ū, P of each band), for one published tick: that of n of them is it divided by n, n large."""
    s, x = seen.signal, seen.steps
    mu = seen.rho0 + s * seen.ones
    sigma2, kappa = mu * (1 - mu), 1 - 2 * mu
    inner = s * (1 - 2 * seen.ones)
    v = (s * s * seen.ones * (1 - seen.ones))[:, None] * seen.weights
    variance = v.sum(axis=1)
    rest, tilt = sigma2 - variance, kappa - inner
    third = v**1.5 * seen.skews
    power = band_means(x, seen.first[:, None, :], seen.lags[:, None, :])
    slope, near, largest, squares = _pairs(x, power, seen)
    far = power[:, :, :, None] * power[:, :, None, :]

    products = np.einsum("njab,nj->nab", squares, v**2 * seen.skews**2)
    count = x.shape[1]
    for i in range(count):
        for j in range(count):
            weight = (v[:, i] * v[:, j])[:, None, None]
            if i == j:
                products += weight * (_limit(x[:, i], seen) - _limit_far(x[:, i], seen))
            elif i < j:
                both = _coefficients(x[:, i], x[:, j])
                for part, one in zip(both, (i, j), strict=True):
                    products += 2 * weight * part[:, None, None] * (near[:, one] + far[:, one])
    bands = np.arange(seen.first.shape[1])
    width = np.maximum(seen.lags, 1.0)
    own = np.zeros_like(near[:, 0])
    own[:, bands, bands] = 1 / width
    products += rest[:, None, None] * np.einsum("njab,nj->nab", 2 * far + 2 * (near - own[:, None]), v)
    themselves = np.zeros_like(near)
    themselves[:, :, bands, bands] = power / width[:, None, :]
    products += tilt[:, None, None] * np.einsum("njab,nj->nab", 2 * far + 2 * (largest - themselves), third)
    correlated = np.einsum("njb,nj->nb", power, v)
    products[:, bands, bands] += (
        (sigma2**2 - variance**2)[:, None] + (kappa**2 - inner**2)[:, None] * correlated
    ) / width
    result = np.zeros((len(s), len(bands) + 1, len(bands) + 1))
    result[:, 0, 0] = sigma2 + 2 * (v * x / (1 - x)).sum(axis=1)
    spans = power * ((1 + x) / (1 - x))[:, :, None] + slope
    result[:, 0, 1:] = np.einsum("njb,nj->nb", spans, third) + 2 * tilt[:, None] * correlated
    result[:, 1:, 0] = result[:, 0, 1:]
    result[:, 1:, 1:] = products
    return result


def mean_variance(seen: SeenChains, ticks: Floats) -> Floats:
    """The variance of the mean of so many published states, which may be few beside the length of a regime."""
    x, s = seen.steps, seen.signal
    mu = seen.rho0 + s * seen.ones
    v = (s * s * seen.ones * (1 - seen.ones))[:, None] * seen.weights
    many = np.maximum(ticks, 1.0)
    found: Floats = (mu * (1 - mu) - v.sum(axis=1)) / many + (v * _self_nearness(x, many[:, None])).sum(
        axis=1
    )
    return found


def _self_nearness(x: Floats, lags: Floats) -> Floats:
    """The mean of x^|h−k| over h and k among so many consecutive lags."""
    return ((1 + x) / (1 - x) - 2 * x / (1 - x) * geometric(x, lags)) / lags


def _coefficients(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """A(g) = a·x^g + b·y^g, for x ≠ y."""
    apart = x - y
    apart = np.where(np.abs(apart) < 1e-12, 1e-12, apart)
    return 1 / (1 - x * y) + y / apart, 1 / (1 - x * y) - x / apart


def _limit(x: Floats, seen: SeenChains) -> Floats:
    """The mean of A_jj(|h−k|) over pairs of bands."""
    return _limit_of(x, lambda y: _mean_nearness(y, seen))


def _limit_far(x: Floats, seen: SeenChains) -> Floats:
    """The mean of A_jj(h+k) over pairs of bands."""

    def far(y: Floats) -> Floats:
        power = band_means(y, seen.first, seen.lags)
        return power[:, :, None] * power[:, None, :]

    return _limit_of(x, far)


def _limit_of(here: Floats, mean: Callable[[Floats], Floats]) -> Floats:
    there = here + _APART * (1 - here)
    a, b = _coefficients(here, there)
    return a[:, None, None] * mean(here) + b[:, None, None] * mean(there)


def _mean_nearness(x: Floats, seen: SeenChains) -> Floats:
    """The mean of x^|h−k| over h in one band and k in another, or in the same one."""
    log = np.log(np.maximum(x, 1e-300))[:, None, None]
    sums = geometric(x[:, None], seen.lags)
    gap = np.abs(
        np.maximum(
            seen.first[:, :, None] - seen.last[:, None, :], seen.first[:, None, :] - seen.last[:, :, None]
        )
    )
    found: Floats = np.exp(gap * log) * sums[:, :, None] * sums[:, None, :]
    bands = np.arange(seen.first.shape[1])
    found[:, bands, bands] = _self_nearness(x[:, None], np.maximum(seen.lags, 1.0))
    return found


def _inside(lags: Floats) -> tuple[Floats, Floats]:
    """Places within bands, counted from their first lag, and their weights: all lags if they are few."""
    many = np.maximum(lags, 1.0)[..., None]
    number = np.arange(_NODES, dtype=float)
    few = many <= _NODES
    places = np.where(few, np.minimum(number, many - 1), (number + 0.5) / _NODES * many - 0.5)
    weights = np.where(few, (number < many) / many, 1 / _NODES)
    return places, weights


def _pairs(x: Floats, power: Floats, seen: SeenChains) -> tuple[Floats, Floats, Floats, Floats]:
    """By component, the mean of h·x^h over each band; and over pairs of bands three means.

    Of x^|h−k|, of x^max(h,k), and of x^max·((1+x)/(1−x) + |h−k|).
    """
    inside, weight = _inside(seen.lags)
    places = seen.first[:, :, None] + inside
    powers = np.exp(places[:, None] * np.log(np.maximum(x, 1e-300))[:, :, None, None])
    slope = np.einsum("njbq,nbq->njb", powers, places * weight)
    near = np.stack([_mean_nearness(x[:, one], seen) for one in range(x.shape[1])], axis=1)
    later = (seen.first[:, :, None] < seen.first[:, None, :])[:, None]  # the second band is the later one
    largest = np.where(later, power[:, :, None, :], power[:, :, :, None])
    middle = seen.first + (seen.lags - 1) / 2
    over = ((1 + x) / (1 - x))[:, :, None, None]
    ahead = slope[:, :, None, :] - middle[:, None, :, None] * power[:, :, None, :]
    squares = over * largest + np.where(later, ahead, np.swapaxes(ahead, 2, 3))
    # Within one band: of the pairs, 1 + 2y have their larger lag y after the first, and are y(y+1) apart in all.
    shares = weight / np.maximum(seen.lags, 1.0)[..., None]
    most = np.einsum("njbq,nbq->njb", powers, shares * (1 + 2 * inside))
    apart = np.einsum("njbq,nbq->njb", powers, shares * (inside * (inside + 1)))
    bands = np.arange(seen.first.shape[1])
    largest[:, :, bands, bands] = most
    squares[:, :, bands, bands] = over[..., 0] * most + apart
    return slope, near, largest, squares
