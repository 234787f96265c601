"""A window's noisy histogram, whatever the number of states, and its debiased frequencies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Histogram:
    """Noisy counts of sanitized states with noise of this scale, and what they say of the true ones."""

    devices: int
    ticks: int
    counts: tuple[int, ...]
    frequencies: tuple[float, ...]
    standard_errors: tuple[float, ...]
    half_widths: tuple[float, ...]
    scale: float


def nearest_distribution(frequencies: Iterable[float]) -> tuple[float, ...]:
    """The nearest frequencies that are not negative and sum to one (projection on the simplex).

    max(f − c, 0), with the one c that makes the sum 1: with the m largest f kept, c = (Σ f − 1)/m.
    """
    values = list(frequencies)
    kept = shift = 0.0
    for count, value in enumerate(sorted(values, reverse=True), start=1):
        kept += value
        if value - (kept - 1) / count > 0:
            shift = (kept - 1) / count
    return tuple(max(value - shift, 0.0) for value in values)
