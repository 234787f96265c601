"""What a window gives, whatever the number of states: a noisy histogram, and frequencies freed of the noise's bias."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection

from hushmq.calibrator.models.chain_model import AnyNoise

Pieces = Mapping[tuple[str, int], Sequence[tuple[int, bytes]]]
"""A window's states by device and noise version: runs with their first ticks."""


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


class Count(Protocol):
    """The states of one window, counted exactly. Secret: what `histogram` gives out carries noise."""

    @property
    def devices(self) -> Sequence[str]:
        """Who has states in the window."""

    def learn(self, db: Connection, stream: str, *, tilt: int) -> None:
        """Hand the window's sums to learning, for which it was charged `tilt` nano-nats."""

    def histogram(self, noises: Mapping[int, AnyNoise], *, tilt: int, device: str | None = None) -> Histogram:
        """Draw the histogram of all devices or of one, for `tilt` nano-nats."""


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
