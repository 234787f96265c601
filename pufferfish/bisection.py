"""Bisection of a monotone predicate."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count


def bisection(
    holds: Callable[[float], bool],
    low: float,
    high: float,
    *,
    absolute: float = 0.0,
    relative: float = 0.0,
    steps: int | None = None,
) -> tuple[float, float]:
    """Bisects [low, high] until high − low ≤ max(absolute, relative·high), or for `steps` steps.

    Returns the last bracket: a point where the predicate holds and one where it does not. The ends are not evaluated:
    the predicate is assumed to hold at low and not at high. Every other point returned has been evaluated, so callers
    take the end on the safe side.
    """
    for _ in count() if steps is None else range(steps):
        if not high - low > max(absolute, relative * high):
            break
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
