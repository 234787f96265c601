"""The result of every mechanism for a 1-Lipschitz query: a Laplace scale, and the quilt that determines it.

A scale s guarantees the stated ε for a query that changes by at most L in the L1 norm when one record changes, if
independent Laplace noise of scale L·s is added to each coordinate. `hushmq scale` prints these values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Quilt = tuple[int | None, int | None]
"""The distances of the active quilt's nodes to the left and right of the secret; None: no node on that side."""

NO_QUILT: Quilt = (None, None)


@dataclass(frozen=True, slots=True)
class LaplaceScale:
    """The Laplace scale of a 1-Lipschitz query, the method that gives it, and the active quilt."""

    method: str
    scale: float
    quilt: Quilt = NO_QUILT


def require_epsilon(epsilon: float) -> None:
    """Raises ValueError unless ε is a positive, finite number."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon is {epsilon:g}; it must be a positive, finite number")


def require_length(length: int | None) -> None:
    """Raises ValueError unless the length is at least 1 or None, an endless stream."""
    if length is not None and length < 1:
        raise ValueError(f"length is {length}; it must be at least 1, or null for an endless stream")
