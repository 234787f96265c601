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


class Streams:
    """Binary chains through noise, each going on where it was.

    Sixteen random bits decide each step, so probabilities are rounded to 1/65536.
    """

    def __init__(self, q: Floats, r: Floats, rng: np.random.Generator) -> None:
        self.count, self._rng = len(q), rng
        self._width = -(-self.count // 4) * 4
        self._state = np.zeros(self._width, dtype=bool)
        self._state[: self.count] = rng.random(self.count) < q / (q + r)
        self.turn(q, r)

    def turn(self, q: Floats, r: Floats) -> None:
        """From here on have these chains; the states stay what they are."""
        self._leave = self._thresholds(q, r)

    def sanitized(self, rho0: Floats | float, rho1: Floats | float, *, ticks: int) -> NDArray[np.uint8]:
        """One row per chain: its sanitized states, packed eight to a byte, the first in the lowest bit."""
        width, state = self._width, self._state
        flip = self._thresholds(*(np.broadcast_to(rho, self.count) for rho in (rho0, rho1)))
        states = np.empty((ticks, width), dtype=bool)
        for tick in range(ticks):
            drawn = self._rng.bit_generator.random_raw(width // 2).view(np.uint16)
            for target, (from0, from1) in ((state, self._leave), (states[tick], flip)):
                part, drawn = drawn[:width], drawn[width:]
                moves0, moves1 = part < from0, part < from1
                np.logical_xor(state, moves0 ^ (state & (moves0 ^ moves1)), out=target)
        return np.ascontiguousarray(np.packbits(states, axis=0, bitorder="little").T[: self.count])

    def _thresholds(self, from0: Floats, from1: Floats) -> NDArray[np.uint16]:
        found = np.zeros((2, self._width), dtype=np.uint16)
        found[:, : self.count] = np.rint(np.stack([from0, from1]) * FULL)
        return found


def sanitized(
    q: Floats, r: Floats, noise: Noise, *, ticks: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """The sanitized states of chains that begin stationary, as of `Streams`."""
    return Streams(q, r, rng).sanitized(noise.rho0, noise.rho1, ticks=ticks)


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
