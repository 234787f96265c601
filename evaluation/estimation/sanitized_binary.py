"""Sanitized streams of many simulated binary chains, and their noisy sufficient statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.learning.update_schedule import FIRST_UPDATE, is_change_test, last_update
from hushmq.calibrator.models.binary.binary_evidence import BinaryEvidence
from hushmq.calibrator.models.binary.binary_statistics import REACH, BinarySums
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.noise.joint_noise import level_shares, mean_square

Floats = NDArray[np.float64]
FULL = 1 << 16


class SanitizedStreams:
    """Sanitized binary chains that continue from call to call.

    Each step uses sixteen random bits, so probabilities are rounded to 1/65536.
    """

    def __init__(self, q: Floats, r: Floats, rng: np.random.Generator) -> None:
        self.count, self._rng = len(q), rng
        self._width = -(-self.count // 4) * 4
        self._state = np.zeros(self._width, dtype=bool)
        self._state[: self.count] = rng.random(self.count) < q / (q + r)
        self.change_chains(q, r)

    def change_chains(self, q: Floats, r: Floats) -> None:
        """Changes the transition probabilities and keeps the states."""
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
    q: Floats, r: Floats, noise: BinaryNoise, *, ticks: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """The sanitized states of chains with the stationary initial law, as of `SanitizedStreams`."""
    return SanitizedStreams(q, r, rng).sanitized(noise.rho0, noise.rho1, ticks=ticks)


@dataclass(frozen=True, slots=True)
class LearningCharge:
    """The tilt charged for the statistics of a window, in nats, and the number of draws of noise."""

    tilt: float
    draws: int


def draws(windows: int) -> int:
    """How often the calibrator draws noise for the evidence of the theta update that uses so many windows.

    Up to the first update once. Later updates use the last two blocks, three quarters of all windows.
    """
    if windows <= FIRST_UPDATE:
        return 1
    whole = windows if windows == 2 * FIRST_UPDATE else windows * 4 // 3
    if whole != last_update(whole) or windows not in {2 * FIRST_UPDATE, whole * 3 // 4}:
        raise ValueError(f"no theta update uses {windows} windows")
    after = last_update(last_update(whole - 1) - 1)
    return sum(
        number == last_update(number) or (number > FIRST_UPDATE and is_change_test(number))
        for number in range(after + 1, whole + 1)
    )


def counted(packed: NDArray[np.uint8], *, ticks: int, window: int | None = None) -> list[BinarySums]:
    """The exact sums of each row; if a window is given, of its windows of so many ticks, a multiple of 8."""
    length = window or ticks
    found = []
    for row in packed:
        sums = BinarySums()
        for first in range(0, ticks, length):
            part = row[first // 8 : -(-(first + length) // 8)]
            sums.add_packed(part.tobytes(), min(length, ticks - first))
        found.append(sums)
    return found


def evidence(
    sums: list[BinarySums], noise: BinaryNoise, *, charge: LearningCharge | None, rng: np.random.Generator
) -> BinaryEvidence:
    """Evidence of one device per sum, with simulated noise that costs the tilt, if any is charged."""
    count = len(sums)
    exact = np.array([np.concatenate(one.groups) for one in sums], dtype=float)
    if charge is not None:
        for _ in range(charge.draws):
            exact += _drawn(count, charge.tilt, rng)
    return BinaryEvidence(
        tuple(f"device-{number}" for number in range(count)),
        np.arange(count),
        np.full(count, noise.rho0),
        np.full(count, noise.rho1),
        np.array([one.ticks for one in sums], dtype=float),
        exact[:, 0],
        np.array([one.starts for one in sums], dtype=float),
        exact[:, 1:],
        np.full(count, 0.0 if charge is None else charge.draws * mean_square(REACH, charge.tilt)),
    )


def _drawn(count: int, tilt: float, rng: np.random.Generator) -> Floats:
    """The noise of pufferfish/noise/joint_noise.py, one row per device, fast and not exact."""
    j = rng.choice(len(REACH) + 1, size=count, p=level_shares(REACH, tilt))
    level = j + rng.negative_binomial(j + 1, -np.expm1(-tilt))
    most = level[:, None] * np.array(REACH)
    found: Floats = rng.integers(-most, most, endpoint=True).astype(np.float64)
    return found


def in_cohorts(sums: list[BinarySums], size: int) -> Iterator[list[BinarySums]]:
    for first in range(0, len(sums), size):
        yield sums[first : first + size]
