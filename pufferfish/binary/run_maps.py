"""The Möbius maps of whole runs, and bounds on their losses, for many runs at once.

Where numpy is missing, as on a device, and for few runs they are computed one by one.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from hushmq.pufferfish.binary.changing_side import Kernel
from hushmq.pufferfish.binary.ratio_orbit import LARGEST_TILT, UNIT_ROUNDOFF, orbit_of
from hushmq.pufferfish.optional_numpy import numpy_if_installed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Shape = tuple[float, int]
"""The tilt of a run, in nats, and its number of ticks."""

Coefficients = tuple[float, float, float, float, float]
"""Of (a·y + b)/(c·y + d), and e^(τ/share)."""

BATCH = 512
"""For so many runs ahead maps are computed at once."""

_KEPT = 150_000
"""Maps that are remembered at most."""

_FEW = 32
"""Fewer runs are quicker one by one."""


class RunMaps:
    """The different shapes of runs, by number, and by kernel the maps of those that were asked for."""

    def __init__(self) -> None:
        self.shapes: list[Shape] = []
        self._numbers: dict[Shape, int] = {}
        self._maps: dict[Kernel, list[Coefficients | None]] = {}
        self._kept = 0

    def number(self, shape: Shape) -> int:
        """The number of a shape."""
        found = self._numbers.get(shape)
        if found is None:
            found = self._numbers[shape] = len(self.shapes)
            self.shapes.append(shape)
        return found

    def of(self, kernel: Kernel) -> list[Coefficients | None]:
        """The maps under a kernel, by the number of the shape."""
        if self._kept > _KEPT:
            self._maps.clear()
            self._kept = 0
        maps = self._maps.setdefault(kernel, [])
        maps.extend([None] * (len(self.shapes) - len(maps)))
        return maps

    def compute(self, kernel: Kernel, maps: list[Coefficients | None], runs: Sequence[int]) -> None:
        """Fill in the maps of those of the runs that have none yet."""
        numbers = [number for number in dict.fromkeys(runs) if maps[number] is None]
        shapes = [(self.shapes[number][0] / kernel.share, self.shapes[number][1]) for number in numbers]
        for number, coefficients in zip(numbers, _coefficients(kernel, shapes), strict=True):
            maps[number] = coefficients
        self._kept += len(numbers)


def bounds_over(
    taus: Sequence[float], before: array[float], after: array[float], ceiling: float, loss: float
) -> list[tuple[float, int]]:
    """Runs whose losses may exceed `loss`: an upper bound on each and the place of the run, largest first.

    Along a run each side moves monotonically from one of its values to the next.
    """
    np = numpy_if_installed() if len(taus) > _FEW else None
    if np is None:
        ends = zip(taus, before, before[1:], after, after[1:], strict=False)
        found = (tau + min(max(a, b) + max(c, d), ceiling) for tau, a, b, c, d in ends)
        return sorted(((bound, i) for i, bound in enumerate(found) if bound > loss), key=_descending)
    left, right = np.frombuffer(before), np.frombuffer(after)
    both = np.maximum(left[:-1], left[1:]) + np.maximum(right[:-1], right[1:])
    bounds = np.array(taus) + np.minimum(both, ceiling)
    places = np.flatnonzero(bounds > loss)
    places = places[np.argsort(-bounds[places], kind="stable")]
    return list(zip(bounds[places].tolist(), places.tolist(), strict=True))


def _descending(one: tuple[float, int]) -> float:
    return -one[0]


def _coefficients(kernel: Kernel, shapes: Sequence[Shape]) -> Iterable[Coefficients]:
    """The maps of runs with these tilts, by the kernel's share, and lengths."""
    np = numpy_if_installed() if len(shapes) > _FEW else None
    if np is not None:
        return _many_coefficients(np, kernel, *np.array(shapes, dtype=np.float64).T)
    found = []
    for tau, ticks in shapes:
        a, b, c, d, _ = orbit_of(kernel.q, kernel.r, tau).map_of(ticks)
        found.append((a, b, c, d, math.exp(min(tau, LARGEST_TILT))))
    return found


def _many_coefficients(
    np: ModuleType, kernel: Kernel, tau: NDArray[np.float64], ticks: NDArray[np.float64]
) -> Iterable[Coefficients]:
    """The same, as `Orbit.map_of` of `orbit_of`."""
    q, r = kernel.q, kernel.r
    tau = np.minimum(tau, LARGEST_TILT)
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
    return zip(*(column.tolist() for column in columns), strict=True)
