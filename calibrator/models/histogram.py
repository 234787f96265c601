"""A window's noisy histogram, whatever the number of states, and its debiased frequencies."""

from __future__ import annotations

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
