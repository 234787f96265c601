"""Sanitized streams of many simulated chains with regimes, published every m-th tick, and their noisy statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.regime.long_bands import strided_bands
from hushmq.calibrator.models.regime.regime_evidence import RegimeEvidence
from hushmq.calibrator.models.regime.regime_statistics import RegimeSums
from hushmq.evaluation.estimation.sanitized_binary import LearningCharge
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.noise.joint_noise import level_shares, mean_square
from hushmq.pufferfish.regimes.regime_chain import RegimeChain

Floats = NDArray[np.float64]


def sanitized(
    chains: Sequence[RegimeChain], noise: BinaryNoise, *, stride: int, count: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """One row per chain: so many sanitized states, of every `stride`-th tick of the stationary chain."""
    steps = np.linalg.matrix_power(np.array([one.kernel for one in chains]), stride)
    below = np.ascontiguousarray(np.cumsum(steps, axis=2)[:, :, :-1].astype(np.float32))
    laws = np.cumsum([one.stationary for one in chains], axis=1)[:, :-1]
    rows = np.arange(len(chains))
    state = (rng.random(len(chains))[:, None] > laws).sum(axis=1)
    flips = np.array([noise.rho0, noise.rho1], dtype=np.float32)
    found = np.empty((count, len(chains)), dtype=np.uint8)
    for tick in range(count):
        draws = rng.random((2, len(chains)), dtype=np.float32)
        state = (draws[0][:, None] > below[rows, state]).sum(axis=1)
        bit = state % 2
        found[tick] = bit ^ (draws[1] < flips[bit])
    return np.ascontiguousarray(found.T)


def counted(states: NDArray[np.uint8], *, stride: int, window: int) -> list[RegimeSums]:
    """The exact sums of each row, counted in windows of so many ticks."""
    found = []
    for row in states:
        sums = RegimeSums(stride)
        for first in range(0, len(row), window // stride):
            sums.add(row[first : first + window // stride].tobytes())
        found.append(sums)
    return found


def evidence(
    sums: Sequence[RegimeSums], noise: BinaryNoise, *, charge: LearningCharge, rng: np.random.Generator
) -> RegimeEvidence:
    """Evidence of one device per sum, with simulated noise that costs the tilt of the charge for every draw."""
    bands = strided_bands(sums[0].stride)
    counted_ = [place for place, starts in enumerate(sums[0].starts) if starts]
    reach = (1, *(bands.reach[1 + place] for place in counted_))
    exact = np.array([[one.ones, *one.changes] for one in sums], dtype=float)
    for _ in range(charge.draws):
        exact[:, [0, *(1 + place for place in counted_)]] += drawn(reach, len(sums), charge.tilt, rng)
    size = len(sums)
    return RegimeEvidence(
        tuple(f"device-{number}" for number in range(size)),
        np.arange(size),
        np.full(size, noise.rho0),
        np.full(size, noise.rho1),
        np.full(size, bands.stride),
        np.array([one.ticks for one in sums], dtype=float),
        exact[:, 0],
        np.array([one.starts for one in sums], dtype=float),
        exact[:, 1:],
        np.full(size, charge.draws * mean_square(reach, charge.tilt)),
    )


def drawn(reach: Sequence[int], count: int, tilt: float, rng: np.random.Generator) -> Floats:
    """The noise of pufferfish/noise/joint_noise.py, one row per device, fast and not exact."""
    j = rng.choice(len(reach) + 1, size=count, p=level_shares(reach, tilt))
    level = j + rng.negative_binomial(j + 1, -np.expm1(-tilt))
    most = level[:, None] * np.array(reach)
    found: Floats = rng.integers(-most, most, endpoint=True).astype(np.float64)
    return found
