"""How far the shares of every m-th tick lie from those of all ticks, for chains of a categorical Θ, with numpy."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta

Array = NDArray[np.float64]


@lru_cache(maxsize=4096)
def sampling_variance(theta: CategoricalTheta, stride: int) -> float:
    """The variance of a state's share of every `stride`-th tick about that of all ticks, times these.

    Of the worst state; of three chains of Θ, those that stay longest and shortest and one between, the largest.
    """
    return max(_largest(kernel, stride) for kernel in _members(theta))


def slowest_correlation(theta: CategoricalTheta) -> float:
    """The largest correlation over one tick of anything in these chains: their second largest eigenvalue."""
    return max(float(np.sort(np.abs(np.linalg.eigvals(kernel)))[-2]) for kernel in _members(theta))


def _members(theta: CategoricalTheta) -> list[Array]:
    low, high = np.array(theta.forward.low), np.array(theta.forward.high)
    middle = (low + high) / 2.0
    found: list[Array] = [middle / middle.sum(axis=1, keepdims=True)]
    for stays in (high, low):
        kernel = middle.copy()
        np.fill_diagonal(kernel, 0.0)
        stay = np.diagonal(stays)
        kernel *= ((1.0 - stay) / np.maximum(kernel.sum(axis=1), 1e-300))[:, None]
        np.fill_diagonal(kernel, stay)
        found.append(kernel / kernel.sum(axis=1, keepdims=True))
    return found


def _largest(kernel: Array, stride: int) -> float:
    law = np.linalg.matrix_power(kernel, 1 << 30)[0]
    if not np.isfinite(law).all() or not law.sum() > 0.0:
        return 0.25 * stride
    law = law / law.sum()
    every, some = _long_run(kernel, law), _long_run(np.linalg.matrix_power(kernel, stride), law)
    return float(max(0.0, np.max(stride * some - every)))


def _long_run(kernel: Array, law: Array) -> Array:
    """The long-run variance of each state's share, times the ticks: by the fundamental matrix."""
    k = len(law)
    centred = np.eye(k) - law  # column u: the indicator of u less its mean
    solved = np.linalg.solve(np.eye(k) - kernel + law, centred)
    found: Array = 2.0 * (law[:, None] * centred * solved).sum(axis=0) - law * (1.0 - law)
    return found
