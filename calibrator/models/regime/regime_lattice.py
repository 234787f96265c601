"""The lattice of chains that a fit weighs: log fast rate × logit slow share × log slow rate.

Every node stands for its cell. What is known of a chain's regimes is rarely normal: with a small slow share nothing is
known of the slow rate, and neither has a mode inside. So a likelihood is computed at every node rather than near a
maximum. One quadratic form for each device and noise version gives it everywhere, since its mean is linear in the
nodes' mean correlations over the bands.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.regime.long_bands import LONG_BANDS, strided_bands
from hushmq.calibrator.models.regime.regime_moments import Floats, band_means

FAST_RATES = np.geomspace(0.04, 1.0, 9)
SLOW_SHARES = np.linspace(-4.2, 4.2, 13)
"""In logits: 1.5% to 98.5% of the variance."""
SLOW_RATES = np.geomspace(2.0**-13, 2.0**-3, 21)
"""Regimes that last 8 to 8,200 ticks."""
AXES: tuple[Floats, ...] = (np.log(FAST_RATES), SLOW_SHARES, np.log(SLOW_RATES))
STEPS = np.array([float(axis[1] - axis[0]) for axis in AXES])
SHAPE = tuple(len(axis) for axis in AXES)
_UPPER = np.triu_indices(len(LONG_BANDS))


def _nodes() -> tuple[Floats, NDArray[np.bool_]]:
    grid = np.stack(np.meshgrid(*AXES, indexing="ij"), axis=-1).reshape(-1, len(AXES))
    return grid, grid[:, 2] <= grid[:, 0] - np.log(2)


NODES, POSSIBLE = _nodes()
"""All nodes, and which are chains: the slow rate is at most half the fast one."""


def components(x: Floats) -> tuple[Floats, Floats]:
    """The weights and the rates of the components, fast and slow, of coordinates in the last axis."""
    slow = 1 / (1 + np.exp(-x[..., 1]))
    return np.stack([1 - slow, slow], axis=-1), np.exp(x[..., [0, 2]])


def correlations(x: Floats, stride: int) -> Floats:
    """The mean correlation over each band of a stream with this stride; 0 where nothing is counted."""
    bands = strided_bands(stride)
    weights, rates = components(x)
    steps = np.clip((1 - np.minimum(rates, 1 - 1e-12)) ** stride, 0.0, 1 - 1e-9)
    lags = np.array(bands.lags, dtype=float)
    means = (weights[..., None] * band_means(steps, np.array(bands.first, dtype=float), lags)).sum(axis=-2)
    return np.where(lags > 0, means, 0.0)


@lru_cache(maxsize=64)
def features(stride: int) -> Floats:
    """Of every node: its correlations, and their products in pairs."""
    means = correlations(NODES, stride)
    pairs = means[:, _UPPER[0]] * means[:, _UPPER[1]]
    return np.ascontiguousarray(np.concatenate([means, pairs], axis=1).T)


def log_likelihoods(
    observed: Floats, covariances: Floats, variance: Floats, stride: int, nodes: NDArray[np.int64]
) -> Floats:
    """Of rows of autocovariances with these covariances, at these nodes; π0·π1 of a row is its `variance`."""
    weights = np.linalg.inv(covariances)
    linear = variance[:, None] * (weights @ observed[..., None])[..., 0]
    constant = (observed[:, None, :] @ weights @ observed[..., None])[:, 0, 0] + np.linalg.slogdet(
        covariances
    )[1]
    twice = np.where(_UPPER[0] == _UPPER[1], 0.5, 1.0)
    square = -(variance**2)[:, None] * weights[:, _UPPER[0], _UPPER[1]] * twice
    # einsum, since BLAS would start threads for so small a product, and wait for them
    terms = np.concatenate([linear, square], axis=1)
    found: Floats = np.einsum("df,fn->dn", terms, features(stride)[:, nodes])
    found -= constant[:, None] / 2
    return found


def classes(of_shares: int, of_rates: int) -> Iterator[tuple[NDArray[np.int64], float, float]]:
    """The possible nodes, by class of slow share and of slow rate, with the middle of each class."""
    for shares in np.array_split(AXES[1], of_shares):
        for rates in np.array_split(AXES[2], of_rates):
            inside = np.isin(NODES[:, 1], shares) & np.isin(NODES[:, 2], rates) & POSSIBLE
            if inside.any():
                yield np.flatnonzero(inside), float(shares.mean()), float(rates.mean())
