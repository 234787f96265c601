"""A window of more than two states: the noisy counts of each, debiased."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.categorical.categorical_statistics import CategoricalSums, sums_of
from hushmq.calibrator.models.draw_noise import noisy, variance
from hushmq.calibrator.models.window_count import DrawnCounts, Pieces, Rows, WindowCount, summed_by_length
from hushmq.calibrator.models.window_parts import Part
from hushmq.calibrator.policy.nano_nats import scale_for
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.inference.nearest_distribution import nearest_distribution

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def count_categorical(k: int, pieces: Pieces) -> WindowCount[CategoricalSums, CategoricalNoise]:
    """Count the states of one window, exactly."""
    return WindowCount(
        pieces,
        lambda each: summed_by_length(each, lambda: CategoricalSums(k), lambda runs: sums_of(runs, k)),
        draw_states,
    )


def draw_states(
    histograms: Sequence[Mapping[int, Sequence[CategoricalSums]]],
    noises: Mapping[int, CategoricalNoise],
    tilt: int,
    rows: Rows = (),
) -> list[DrawnCounts]:
    """Draw the noise on the count of every state; changing one state changes two by one, which costs 2/scale."""
    scale = scale_for(2, tilt)
    exact = np.array(
        [np.sum([one.counts for one in each], axis=0) for sums in histograms for each in sums.values()],
        dtype=np.int64,
    )
    counts = np.array(noisy(exact.ravel().tolist(), scale=scale), dtype=np.int64).reshape(exact.shape)
    used = {version for sums in histograms for version in sums}
    debiasing = {version: _Debiasing.of(noises[version]) for version in used}
    summing = {version: _Debiasing.of(noises[version], rows) for version in used} if rows else {}
    found, at = [], 0
    for sums in histograms:
        seen = counts[at : at + len(sums)]
        at += len(sums)
        counted = [
            (version, sum(one.ticks for one in each), row)
            for (version, each), row in zip(sums.items(), seen, strict=True)
        ]
        parts, weighted = (
            [each[version].part(ticks, row, variance(scale)) for version, ticks, row in counted if each]
            for each in (debiasing, summing)
        )
        found.append(DrawnCounts(tuple(seen.sum(axis=0).tolist()), parts, scale, weighted))
    return found


@dataclass(frozen=True, slots=True)
class _Debiasing:
    """What one noise version makes of counts: the shares are f = p·B⁻¹, where the sanitized states have shares p = f·B.

    A column is a sum Σ v_j·f_j of shares; by default there is one for each state. It is the mean of g = B⁻¹·v over the
    sanitized states. Given the true states, one tick in state u adds Σ_z B[u][z]·g[z]² − v[u]² to the variance of what
    is counted.
    """

    inverse: Floats
    columns: Floats
    each: Floats
    squares: Floats

    @classmethod
    def of(cls, noise: CategoricalNoise, rows: Rows = ()) -> Self:
        emission = np.array(noise.rows)
        inverse = np.linalg.inv(emission)
        wanted = np.array(rows).T if rows else np.eye(len(emission))
        columns = inverse @ wanted
        each = np.maximum(emission @ columns**2 - wanted**2, 0.0)
        return cls(inverse, columns, each, (columns**2).sum(axis=0))

    def part(self, ticks: int, counts: Integers, off: float) -> Part:
        """The part of a window with these noisy counts, whose noise has the variance `off`."""
        possible = np.array(nearest_distribution(counts @ self.inverse / ticks))
        return Part(
            ticks,
            (counts @ self.columns / ticks).tolist(),
            (possible @ self.each / ticks).tolist(),
            (self.each.max(axis=0) / ticks).tolist(),
            (off * self.squares / ticks**2).tolist(),
        )
