"""The different shapes of runs, and the Möbius maps of whole runs, for many of them at once.

Where numpy is missing, as on a device, and for few runs they are computed one by one.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from hushmq.pufferfish.mobius.changing_side import Kernel
from hushmq.pufferfish.mobius.ratio_orbit import LARGEST_TILT, UNIT_ROUNDOFF, orbit_of
from hushmq.pufferfish.optional_numpy import numpy_if_installed
from hushmq.pufferfish.timeline.tilt_runs import nats_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Shape = tuple[float, int]
"""The tilt of a run, in nats, and its number of ticks."""

Coefficients = tuple[float, float, float, float, float]
"""Of (a·y + b)/(c·y + d), and e^(τ/share)."""

_KEPT = 150_000
"""Maps that are remembered at most."""

_FEW = 32
"""Fewer runs are quicker one by one."""


class RunMaps:
    """The different shapes of runs, by number, and by kernel the maps of those that were asked for."""

    def __init__(self) -> None:
        self.taus: array[float] = array("d")
        """The tilts of the shapes."""
        self._ticks: array[float] = array("d")
        self._numbers: dict[tuple[int, int], int] = {}
        self._maps: dict[Kernel, dict[int, Coefficients]] = {}
        self._tables: dict[Kernel, NDArray[np.float64]] = {}
        self._kept = 0

    def numbers(self, runs: Sequence[tuple[int, int]]) -> array[int]:
        """The numbers of the shapes of some runs, each given by its tilt in units and its number of ticks."""
        known = self._numbers
        if new := [run for run in dict.fromkeys(runs) if run not in known]:
            known.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
            self.taus.extend(nats_of([tilt for tilt, _ in new]))
            self._ticks.extend([ticks for _, ticks in new])
        return array("q", [known[run] for run in runs])

    def shape(self, number: int) -> Shape:
        """The shape with this number."""
        return self.taus[number], int(self._ticks[number])

    def shapes(
        self, np: ModuleType, numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The tilts and the numbers of ticks of shapes."""
        return np.frombuffer(self.taus)[numbers], np.frombuffer(self._ticks)[numbers]

    def taus_of(self, numbers: array[int]) -> array[float]:
        """The tilts of shapes."""
        np = numpy_if_installed() if len(numbers) > _FEW else None
        if np is None:
            return array("d", [self.taus[number] for number in numbers])
        return array("d", np.frombuffer(self.taus)[np.frombuffer(numbers, dtype=np.int64)].tobytes())

    def of(self, kernel: Kernel, number: int) -> Coefficients:
        """The map of a shape under a kernel."""
        maps = self._maps.setdefault(kernel, {})
        found = maps.get(number)
        if found is None:
            self._keep(1)
            tau, ticks = self.shape(number)
            a, b, c, d, _ = orbit_of(kernel.q, kernel.r, tau / kernel.share).map_of(ticks)
            found = maps[number] = a, b, c, d, math.exp(min(tau / kernel.share, LARGEST_TILT))
        return found

    def table(self, np: ModuleType, kernel: Kernel, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The maps of some shapes under a kernel, a row for each."""
        known = self._tables.get(kernel)
        if known is None or len(known) < len(self.taus):
            grown = np.full((len(self.taus) + len(self.taus) // 4, 5), np.nan)
            if known is not None:
                grown[: len(known)] = known
            known = self._tables[kernel] = grown
        found = known[numbers]
        missing = np.isnan(found[:, 0])
        if missing.any():
            new = np.flatnonzero(np.bincount(numbers[missing]))
            self._keep(len(new))
            known[new] = _many_coefficients(np, kernel, *self.shapes(np, new))
            found = known[numbers]
        return found

    def _keep(self, more: int) -> None:
        if self._kept > _KEPT:
            self._maps.clear()
            self._tables.clear()
            self._kept = 0
        self._kept += more


def _many_coefficients(
    np: ModuleType, kernel: Kernel, tau: NDArray[np.float64], ticks: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The maps of runs with these tilts and lengths, as `Orbit.map_of` of `orbit_of`."""
    q, r = kernel.q, kernel.r
    tau = np.minimum(tau / kernel.share, LARGEST_TILT)
    shrink = np.exp(-tau)
    b, d = q * shrink, (1.0 - r) * shrink
    difference = (r - q) - (1.0 - r) * np.expm1(-tau) + 8.0 * UNIT_ROUNDOFF * ((1.0 - q) + d)
    spread = np.sqrt(difference * difference + 4.0 * b * r)
    down = np.maximum(spread - difference, 1e-300)
    fixed_point = np.where(difference >= 0.0, (difference + spread) / (2.0 * r), 2.0 * b / down)
    larger = r * fixed_point + d
    gap = spread / larger
    near, far = np.log1p(-np.minimum(gap, 0.5)), math.log1p(-(q + r)) - tau - 2.0 * np.log(larger)
    log_mu = np.where(gap < 0.5, near, far)
    kappa = fixed_point * fixed_point * r / b
    still = tau == 0.0
    fixed_point[still], kappa[still], log_mu[still] = 1.0, r / q, math.log1p(-(q + r))
    exponent = ticks * log_mu
    w, rest = np.exp(exponent), -np.expm1(exponent)
    columns = kappa + w, fixed_point * rest, kappa * rest / fixed_point, 1.0 + kappa * w, np.exp(tau)
    return np.stack(columns, axis=1)  # type: ignore[no-any-return]  # numpy's, as the module is
