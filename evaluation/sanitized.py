"""Simulated cohorts: many binary chains through noise at once, and the charged statistics of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrator.estimate import Evidence
from calibrator.noise import variance
from calibrator.statistics import BANDS, COARSENESS, WIDTHS, Sums
from pufferfish.binary import Noise

Floats = NDArray[np.float64]
FULL = 1 << 16


def sanitized(
    q: Floats, r: Floats, noise: Noise, *, ticks: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """One row per chain: its sanitized states, packed eight to a byte, the first in the lowest bit.

    Sixteen random bits decide each step, so probabilities are rounded to 1/65536.
    """
    chains = len(q)
    width = -(-chains // 4) * 4
    leave = np.zeros((2, width), dtype=np.uint16)
    leave[:, :chains] = np.rint(np.stack([q, r]) * FULL)
    flip = [np.uint16(round(rho * FULL)) for rho in (noise.rho0, noise.rho1)]
    state = np.zeros(width, dtype=bool)
    state[:chains] = rng.random(chains) < q / (q + r)
    states = np.empty((ticks, width), dtype=bool)
    for tick in range(ticks):
        drawn = rng.bit_generator.random_raw(width // 2).view(np.uint16)
        for target, (from0, from1) in ((state, leave), (states[tick], flip)):
            part, drawn = drawn[:width], drawn[width:]
            moves0, moves1 = part < from0, part < from1
            np.logical_xor(state, moves0 ^ (state & (moves0 ^ moves1)), out=target)
    return np.ascontiguousarray(np.packbits(states, axis=0, bitorder="little").T[:chains])


@dataclass(frozen=True, slots=True)
class Charge:
    """The scale of the noise on `ones`, and over how many windows it was drawn."""

    scale: float
    windows: int


def counted(packed: NDArray[np.uint8], *, ticks: int) -> list[Sums]:
    """The exact sums of each row."""
    found = []
    for row in packed:
        sums = Sums()
        sums.add_packed(row.tobytes(), ticks)
        found.append(sums)
    return found


def evidence(sums: list[Sums], noise: Noise, *, charge: Charge | None, rng: np.random.Generator) -> Evidence:
    """Evidence of one device per sum, with simulated noise of the charged scale, if any is charged."""
    count = len(sums)

    def drawn(width: int) -> Floats:
        if charge is None:
            return np.zeros(count)
        shares = rng.geometric(-np.expm1(-1 / (charge.scale * width)), (2, count, charge.windows))
        total: Floats = (shares[0] - shares[1]).sum(axis=1).astype(np.float64)
        return total

    changes = np.array([one.changes for one in sums], dtype=float)
    return Evidence(
        tuple(f"device-{number}" for number in range(count)),
        np.arange(count),
        np.full(count, noise.rho0),
        np.full(count, noise.rho1),
        np.array([one.ticks for one in sums], dtype=float),
        np.array([one.ones for one in sums]) + drawn(1),
        np.array([one.starts for one in sums], dtype=float),
        changes + np.stack([drawn(WIDTHS[band] * COARSENESS[band]) for band in range(len(BANDS))], axis=1),
        np.full(count, 0.0 if charge is None else charge.windows * variance(charge.scale)),
    )


def in_cohorts(sums: list[Sums], size: int) -> Iterator[list[Sums]]:
    for first in range(0, len(sums), size):
        yield sums[first : first + size]
