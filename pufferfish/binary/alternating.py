"""Negative correlation, q+r ≥ 1: the worst transcript favours the two states in turns.

A step of the chain now turns evidence for one state into evidence for the other, so the ticks at an odd
distance from the one attacked are worst when they favour the other state. Relabelling every second instant
makes the correlation positive again, and the theorems of the positive case hold as they stand (docs/theory.md,
section 4); only the two tilts take turns, so the closed forms for runs give way to walking tick by tick.
Correlation this way round is rare in sampled data and dies out quickly, so the walks are short.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

from hushmq.pufferfish.binary.known_instant import TOLERANCE, largest_ratio
from hushmq.pufferfish.binary.ratio_orbit import LARGEST, Matrix, fixed_point

# A chain closer to strict alternation than this takes very long walks.
_CLOSEST = 1.9999


def limit(q: float, r: float, tau0: float, tau1: float) -> float:
    """C∞ on an endless stream: the fixed point of two ticks together, not below the true one.

    C = ((1−q) + q·m1·D)/(r + (1−r)·m1·D) and D = ((1−r) + r·m0·C)/(q + (1−q)·m0·C); the entries of the
    product are divided by m0·m1.
    """
    shrink0, shrink1 = math.exp(-min(tau0, LARGEST)), math.exp(-min(tau1, LARGEST))
    a = q * r + (1.0 - q) ** 2 * shrink1
    b = (q * (1.0 - r) + q * (1.0 - q) * shrink1) * shrink0
    c = r * (1.0 - r) + r * (1.0 - q) * shrink1
    d = ((1.0 - r) ** 2 + q * r * shrink1) * shrink0
    return fixed_point(a, b, c, d, a - d)[0]


def known(q: float, r: float, gains: Iterable[float], *, soft: bool, floor: float) -> float:
    """The largest log-ratio favouring 0 over all known instants on one side, or the floor if higher.

    The gains are the signed tilts towards 0 at distances 1, 2, …; where they end, the stream ends. The walk
    stops once nothing further away can add to the best.
    """
    if q + r > _CLOSEST:
        raise ValueError(
            f"Θ: q + r is {q + r!r}; the informed adversary is priced for q + r up to {_CLOSEST} only"
        )
    tilted = seen = Matrix(1.0, 0.0, 0.0, 1.0, 1.0)
    step = Matrix(1.0 - q, q, r, 1.0 - r, 1.0 - q - r)
    best = floor
    for gain in gains:
        seen, reached = seen.then(step), tilted.then(step)
        for b in (0.0, math.inf):
            best = max(best, math.log(reached(b) / seen(b)))
        # Scaled by the tilt's square root, so that neither direction overflows.
        half = 0.5 * max(-LARGEST, min(gain, LARGEST))
        tilted = reached.then(Matrix(math.exp(half), 0.0, 0.0, math.exp(-half), 1.0))
        if soft:
            best = max(best, largest_ratio(tilted, seen, 0.0, math.inf))
        rest = math.log(max(tilted(0.0), tilted(math.inf)) / min(seen(0.0), seen(math.inf)))
        if rest <= best + TOLERANCE:
            return max(best, rest)
    return max(best, math.log(tilted(1.0)))


def turns(tau0: float, tau1: float) -> Iterator[float]:
    """The gains of an endless stream of the same tilts: towards 1 at odd distances, towards 0 at even."""
    return itertools.cycle((-tau1, tau0))


def ratios(q: float, r: float, tau0: list[float], tau1: list[float]) -> tuple[list[float], list[float]]:
    """At every tick, the log-ratios favouring 0 and favouring 1 of all ticks before it, nothing known."""
    towards0, towards1, c, d = [], [], 1.0, 1.0
    for tilt0, tilt1 in zip(tau0, tau1, strict=True):
        towards0.append(math.log(c))
        towards1.append(math.log(d))
        x, y = math.exp(-min(tilt1, LARGEST)) / d, math.exp(-min(tilt0, LARGEST)) / c
        c, d = ((1.0 - q) * x + q) / (r * x + 1.0 - r), ((1.0 - r) * y + r) / (q * y + 1.0 - q)
    return towards0, towards1
