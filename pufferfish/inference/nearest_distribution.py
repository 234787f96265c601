"""The nearest frequencies that are a distribution."""

from __future__ import annotations

from collections.abc import Iterable


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
