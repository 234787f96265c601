"""How far the long-run odds of one state against another differ over Θ: what an undecided adversary learns beside.

docs/theory-world.md, Theorem 26: who knows Θ and not which of its chains is the true one loses no more than this spread
plus the loss to the prior adversary.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from typing import Any

from hushmq.verify.more_states import SCALE, Bounds, extreme_mean
from hushmq.verify.outward import UP, exact, ln

ROUNDS = 200
"""Improvements of the rows of a chain before it is given up on."""


def spread_of_two(theta: dict[str, Any]) -> Decimal:
    """The spread for two states, rounded up, also for kernels that change in time within Θ.

    The share of ones moves from p to q·(1−p) + (1−r)·p. The least interval [low, high] of shares that every such step
    maps into itself is the solution of two linear equations.
    """
    q0, q1 = (Fraction(theta["q"][end]) for end in ("low", "high"))
    r0, r1 = (Fraction(theta["r"][end]) for end in ("low", "high"))
    if (q0, r0) == (q1, r1):
        return Decimal(0)
    up, down = 1 - q1 - r0, 1 - q0 - r1
    # high = q1 + up·(high if up ≥ 0 else low), low = q0 + down·(low if down ≥ 0 else high)
    a, b = (1 - up, Fraction(0)) if up >= 0 else (Fraction(1), -up)
    c, d = (Fraction(0), 1 - down) if down >= 0 else (-down, Fraction(1))
    determinant = a * d - b * c
    high, low = (q1 * d - b * q0) / determinant, (a * q0 - c * q1) / determinant
    return _ln_up(high * (1 - low) / ((1 - high) * low))


def spread_of_more(theta: dict[str, Any]) -> Decimal:
    """The spread for more states, rounded up; infinite where no bound is proved.

    π(a)/π(b) is the expected number of visits to a between two visits to b. Rows may be chosen one by one within their
    bounds, so any v with v(c) ≥ the largest mean of [u=a] + [u≠b]·v(u) over the rows of c, for every c, bounds it by
    v(b).
    """
    # The chain reversed in time has the same π.
    sides = [Bounds.of(theta)] + ([Bounds.of(theta["backward"])] if theta.get("backward") else [])
    most: dict[tuple[int, int], Fraction] = {}
    for pair in permutations(range(len(theta["low"])), 2):
        found = [visits for side in sides if (visits := _most_visits(side, *pair)) is not None]
        if not found:
            return Decimal("Infinity")
        most[pair] = min(found)
    return max(_ln_up(visits * most[b, a]) for (a, b), visits in most.items())


def _ln_up(value: Fraction) -> Decimal:
    ratio = UP.divide(Decimal(value.numerator), Decimal(value.denominator))
    return ln(exact(ratio)).high if value > 1 else Decimal(0)


def _most_visits(bounds: Bounds, a: int, b: int) -> Fraction | None:
    """An upper bound on the largest π(a)/π(b): guessed in floats, then proved in whole numbers.

    Every step is paid a little more than it is worth, so that the guess exceeds its own mean by more than its rounding.
    """
    size = len(bounds.low)
    for room in (1e-13, 1e-11, 1e-9, 1e-6):
        guess = _guess(bounds, a, b, room)
        if guess is None:
            return None
        v = [int(one * SCALE) for one in guess]
        paid = [SCALE * (u == a) + worth * (u != b) for u, worth in enumerate(v)]
        if all(v[c] >= extreme_mean(bounds.low[c], bounds.high[c], paid, 1) for c in range(size)):
            return Fraction(v[b], SCALE)
    return None


def _guess(bounds: Bounds, a: int, b: int, room: float) -> list[float] | None:
    """The worth of every state under the best rows, which are improved until they stay."""
    size = len(bounds.low)
    value = [1.0] * size
    rows: list[list[float]] = []
    for _ in range(ROUNDS):
        worth = [(u == a) + one * (u != b) for u, one in enumerate(value)]
        better = [_best_row(bounds, c, worth) for c in range(size)]
        if better == rows:
            return value
        rows = better
        found = _solved(rows, a, b, room)
        if found is None:
            return None
        value = found
    return value


def _best_row(bounds: Bounds, c: int, worth: Sequence[float]) -> list[float]:
    """The row of c within its bounds with the largest mean."""
    row, free = list(bounds.low[c]), SCALE - sum(bounds.low[c])
    for u in sorted(range(len(worth)), key=lambda u: -worth[u]):
        moved = min(free, bounds.high[c][u] - bounds.low[c][u])
        row[u], free = row[u] + moved, free - moved
    return [one / SCALE for one in row]


def _solved(rows: list[list[float]], a: int, b: int, room: float) -> list[float] | None:
    """The v with v(c) = `room` + the mean of [u=a] + [u≠b]·v(u) under row c; None if b may never be reached."""
    size = len(rows)
    system = [
        [float(c == u) - (rows[c][u] if u != b else 0.0) for u in range(size)] + [rows[c][a] + room]
        for c in range(size)
    ]
    for step in range(size):
        pivot = max(range(step, size), key=lambda c: abs(system[c][step]))
        system[step], system[pivot] = system[pivot], system[step]
        if abs(system[step][step]) < 1e-13:
            return None
        for c in range(size):
            if c != step:
                factor = system[c][step] / system[step][step]
                system[c] = [one - factor * other for one, other in zip(system[c], system[step], strict=True)]
    return [system[c][size] / system[c][c] for c in range(size)]
