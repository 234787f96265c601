"""What every mechanism for a 1-Lipschitz query answers: how much Laplace noise, and what it leaned on.

A scale s promises: add independent Laplace noise of scale L·s to each coordinate of a query that changes by at most
L in the L1 norm when one record changes, and the stated ε holds. `hushmq scale` prints these values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Quilt = tuple[int | None, int | None]
"""How far the active quilt's nodes lie to the left and right of the secret; None: no node on that side."""

NO_QUILT: Quilt = (None, None)


@dataclass(frozen=True, slots=True)
class Scale:
    """The Laplace scale of a 1-Lipschitz query, the method that gives it, and the active quilt."""

    method: str
    scale: float
    quilt: Quilt = NO_QUILT


def require_epsilon(epsilon: float) -> None:
    """Refuse an ε that is not a positive, finite number."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon is {epsilon:g}; it must be a positive, finite number")


def require_length(length: int | None) -> None:
    """Refuse a length that is not at least 1; None means an endless stream."""
    if length is not None and length < 1:
        raise ValueError(f"length is {length}; it must be at least 1, or null for an endless stream")
