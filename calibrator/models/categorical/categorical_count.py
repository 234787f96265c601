"""A window of more than two states: the noisy counts of each, debiased."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hushmq.calibrator.models.categorical.categorical_statistics import CategoricalSums
from hushmq.calibrator.models.draw_noise import noisy, variance
from hushmq.calibrator.models.window_count import DrawnCounts, Pieces, WindowCount
from hushmq.calibrator.models.window_parts import Part
from hushmq.calibrator.policy.nano_nats import scale_for
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.inference.nearest_distribution import nearest_distribution


def count_categorical(k: int, pieces: Pieces) -> WindowCount[CategoricalSums, CategoricalNoise]:
    """Count the states of one window, exactly."""
    return WindowCount(pieces, lambda: CategoricalSums(k), draw_states)


def draw_states(
    sums: Mapping[int, Sequence[CategoricalSums]], noises: Mapping[int, CategoricalNoise], tilt: int
) -> DrawnCounts:
    """Draw the noise on the count of every state; changing one state changes two by one, which costs 2/scale."""
    scale = scale_for(2, tilt)
    ticks = [sum(one.ticks for one in each) for each in sums.values()]
    exact = np.array([np.sum([one.counts for one in each], axis=0) for each in sums.values()], dtype=np.int64)
    counts = np.array(noisy(exact.ravel().tolist(), scale=scale), dtype=np.int64).reshape(exact.shape)
    parts = [_part(noises[v], n, seen, scale) for v, n, seen in zip(sums, ticks, counts, strict=True)]
    return DrawnCounts(tuple(int(one) for one in counts.sum(axis=0)), parts, scale)


def _part(noise: CategoricalNoise, ticks: int, counts: np.ndarray, scale: float) -> Part:
    """The shares are f = p·B⁻¹, where the sanitized states have shares p = f·B.

    Given the true states, one tick in state u adds Σ_z B[u][z]·B⁻¹[z][j]² − (1 if u = j else 0) to the variance of what
    is counted for j.
    """
    emission = np.array(noise.rows)
    inverse = np.linalg.inv(emission)
    shares = counts @ inverse / ticks
    each = np.maximum(emission @ inverse**2 - np.eye(len(emission)), 0.0)
    drawn = variance(scale) * (inverse**2).sum(axis=0) / ticks**2
    return Part(
        ticks,
        shares.tolist(),
        (np.array(nearest_distribution(shares)) @ each / ticks).tolist(),
        (each.max(axis=0) / ticks).tolist(),
        drawn.tolist(),
    )
