"""The steps of all chains within intervals as a few Möbius maps, with numpy.

A step from D certifies the largest log (1 + g·a(S))/(1 + g·b(S)) with g = e^D − 1, over rows a, b of different states
and sets S of states (docs/theory-k.md, Theorem 8). With a(S) at most min(Σ_S a⁺, 1 − Σ_{not S} a⁻) and b(S) at least
max(Σ_S b⁻, 1 − Σ_{not S} b⁺), every S and pair of states is a point (b, a). Of all points only those on the upper
left of their convex hull are ever the largest, one after the other as D grows. A point is the step of a two-state chain
with q = 1 − a and r = b, so that the whole step is a `ChangingSide`, unless q or r is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.mobius.changing_side import ChangingSide, Kernel, Piece

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MOST_STATES = 12
"""With more states there are too many sets."""

_UNIT = 2.0**-52
"""Twice the rounding error of an operation whose result is at most 2; with u half of it, 2^-53:

- a mean of `_times` is off by at most (2.5·k + 2)·u, of which k·u are of its products and sums, whose weights sum to
  one, 1.5·k + 1 of the mass left for the last entry, and 1 of the sum of both parts and of the room: 4·k·u are allowed;
- a bound of `_tightened` and a sum over a set, with what is left of one, by at most (k + 1)·u: 2·k·u are allowed.

A chain that hardly forgets is sensitive to more: a price may then exceed what its certificate proves.
"""


Hull = Sequence[tuple[float, float]]
"""The points (b, a) that may be the largest, from small D to large D: both fall."""


def step_hulls(np: ModuleType, intervals: TransitionIntervals, hops: Sequence[int]) -> Mapping[int, Hull]:
    """The steps of these lengths, in ascending order."""
    found: dict[int, Hull] = {}
    first = np.array(intervals.low), np.array(intervals.high)
    power, length = _tightened(np, *first), 1
    for wanted in hops:
        while length < wanted:
            power, length = _times(np, first, power), length + 1
        found[wanted] = _hull(np, *power)
    return found


def _tightened(np: ModuleType, low: Array, high: Array) -> tuple[Array, Array]:
    """As `TransitionIntervals.tightened`."""
    lows, highs = low.sum(axis=1, keepdims=True), high.sum(axis=1, keepdims=True)
    room = len(low) * _UNIT
    less = np.maximum(low, 1.0 - (highs - high) - room)
    return less, np.maximum(np.minimum(high, 1.0 - (lows - low) + room), less)


def _times(np: ModuleType, first: tuple[Array, Array], after: tuple[Array, Array]) -> tuple[Array, Array]:
    """As `TransitionIntervals.times`: the mass of a row goes to the least, or to the largest, entries of a column."""
    (low, high), k = first, len(first[0])
    left, bounds = 1.0 - low.sum(axis=1), []
    for values, sign in zip(after, (1.0, -1.0), strict=True):
        order = np.argsort(sign * values, axis=0)
        # By column of the product, state, and place in the order.
        widths = (high - low)[:, order].transpose(2, 0, 1)
        begun = widths.cumsum(axis=2) - widths
        more = np.clip(left[None, :, None] - begun, 0.0, widths)
        sorted_values = np.take_along_axis(values, order, axis=0).T
        mean = low @ values + (more * sorted_values[:, None, :]).sum(axis=2).T
        bounds.append(np.clip(mean - sign * 2.0 * k * _UNIT, 0.0, 1.0))
    return _tightened(np, bounds[0], bounds[1])


def _hull(np: ModuleType, low: Array, high: Array) -> Hull:
    room = len(low) * _UNIT
    # Of all sets but that of none and that of all, which tell nothing; in the reverse order they are the complements.
    lows, highs = _sums_over_sets(np, low)[:, 1:-1], _sums_over_sets(np, high)[:, 1:-1]
    most = np.minimum(np.minimum(highs, 1.0 - lows[:, ::-1]) + room, 1.0)
    least = np.maximum(np.maximum(lows, 1.0 - highs[:, ::-1]) - room, 0.0)
    # For each set the largest a(S) and the least b(S); if one state has both, either with the next best of the other.
    sets = np.arange(most.shape[1])
    at_most, at_least = most.argmax(axis=0), least.argmin(axis=0)
    a, b, same = most[at_most, sets], least[at_least, sets], at_most == at_least
    most[at_most[same], sets[same]], least[at_least[same], sets[same]] = -np.inf, np.inf
    a_points = np.concatenate((a[~same], a[same], most[:, same].max(axis=0)))
    b_points = np.concatenate((b[~same], least[:, same].min(axis=0), b[same]))
    order = np.lexsort((-a_points, b_points))
    a_points, b_points = a_points[order], b_points[order]
    rising = np.concatenate(([True], a_points[1:] > np.maximum.accumulate(a_points)[:-1]))
    hull: list[tuple[float, float]] = []
    for point in zip(b_points[rising].tolist(), a_points[rising].tolist(), strict=True):
        while len(hull) > 1 and not _bends(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    # For small D the largest a − b counts.
    while len(hull) > 1 and hull[-1][1] - hull[-1][0] <= hull[-2][1] - hull[-2][0]:
        hull.pop()
    # For large D the largest a/b does.
    while len(hull) > 1 and hull[0][1] * hull[1][0] <= hull[1][1] * hull[0][0]:
        del hull[0]
    return hull[::-1]


def _sums_over_sets(np: ModuleType, rows: Array) -> Array:
    """The sum of each row over every set of states; the bits of a column's number are the states in its set."""
    sums = np.zeros((len(rows), 1))
    for column in rows.T:
        sums = np.concatenate((sums, sums + column[:, None]), axis=1)
    return sums  # type: ignore[no-any-return]  # numpy's, as the module is


def _bends(before: tuple[float, float], here: tuple[float, float], after: tuple[float, float]) -> bool:
    """Whether a point lies above the line from the one before it to the one after it."""
    return (here[1] - before[1]) * (after[0] - here[0]) > (after[1] - here[1]) * (here[0] - before[0])


def side_of(hull: Hull) -> ChangingSide | None:
    """The step as pieces; None if a set is certain under one row or impossible under another."""
    if min(b for b, _ in hull) <= 0.0 or max(a for _, a in hull) >= 1.0:
        return None
    kept = [hull[0]]
    for d, c in hull[1:]:
        b, a = kept[-1]
        # Where rows are alike, rounding alone tells points apart: one whose ratio is no larger is never the largest.
        if c * b > a * d:
            kept.append((d, c))
    pieces = []
    for place, (b, a) in enumerate(kept):
        upper = math.inf
        if place + 1 < len(kept):
            d, c = kept[place + 1]
            # Where (1 + g·a)/(1 + g·b) = (1 + g·c)/(1 + g·d).
            upper = math.log1p(max((a - b) - (c - d), 0.0) / (c * b - a * d))
        pieces.append(Piece(upper, Kernel(1.0 - a, b, 1)))
    return ChangingSide(pieces)
