"""Negatively correlated chains, q+r ≥ 1: the worst transcript favours the two states alternately.

One step of the chain turns evidence for one state into evidence for the other, so the outputs at an odd distance from
the attacked tick are worst if they favour the other state. Relabelling every second instant makes the correlation
positive, and the theorems of that case apply (docs/theory.md, section 4). The two tilts alternate, so there is no
closed form for a run, and the recursion visits every tick. Negative correlation is rare in sampled data and decays
quickly, so few ticks are visited.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

from hushmq.pufferfish.binary.known_instant import TOLERANCE
from hushmq.pufferfish.mobius.ratio_orbit import LARGEST_TILT, MobiusMap, attracting_fixed_point

# The largest q + r for which known states are searched: nearer to 2, correlation decays too slowly.
_LARGEST_SUM = 1.9999


def endless_ratio(q: float, r: float, tau0: float, tau1: float) -> float:
    """C∞ on an endless stream: the fixed point of the map of two ticks, rounded up.

    C = ((1−q) + q·m1·D)/(r + (1−r)·m1·D) and D = ((1−r) + r·m0·C)/(q + (1−q)·m0·C); the entries of the
    product are divided by m0·m1.
    """
    shrink0, shrink1 = math.exp(-min(tau0, LARGEST_TILT)), math.exp(-min(tau1, LARGEST_TILT))
    a = q * r + (1.0 - q) ** 2 * shrink1
    b = (q * (1.0 - r) + q * (1.0 - q) * shrink1) * shrink0
    c = r * (1.0 - r) + r * (1.0 - q) * shrink1
    d = ((1.0 - r) ** 2 + q * r * shrink1) * shrink0
    return attracting_fixed_point(a, b, c, d, a - d)[0]


def largest_known_log_ratio(q: float, r: float, gains: Iterable[float], *, floor: float) -> float:
    """The larger of `floor` and the largest log-ratio favouring 0 over known states on one side.

    `gains` are the signed tilts towards 0 at distances 1, 2, … up to the end of the stream. The search stops once no
    farther instant can exceed the largest log-ratio found.
    """
    if q + r > _LARGEST_SUM:
        raise ValueError(
            f"Θ: q + r is {q + r!r}; the informed adversary is priced for q + r up to {_LARGEST_SUM} only"
        )
    tilted = seen = MobiusMap(1.0, 0.0, 0.0, 1.0, 1.0)
    step = MobiusMap(1.0 - q, q, r, 1.0 - r, 1.0 - q - r)
    best = floor
    for gain in gains:
        seen, reached = seen.compose(step), tilted.compose(step)
        for b in (0.0, math.inf):
            best = max(best, math.log(reached(b) / seen(b)))
        # Scaled by e^(−gain/2), so that neither direction overflows.
        half = 0.5 * max(-LARGEST_TILT, min(gain, LARGEST_TILT))
        tilted = reached.compose(MobiusMap(math.exp(half), 0.0, 0.0, math.exp(-half), 1.0))
        rest = math.log(max(tilted(0.0), tilted(math.inf)) / min(seen(0.0), seen(math.inf)))
        if rest <= best + TOLERANCE:
            return max(best, rest)
    return max(best, math.log(tilted(1.0)))


def endless_gains(tau0: float, tau1: float) -> Iterator[float]:
    """The signed tilts of an endless stream of constant tilts: towards 1 at odd distances, towards 0 at even ones."""
    return itertools.cycle((-tau1, tau0))


def prior_log_ratios(
    q: float, r: float, tau0: list[float], tau1: list[float]
) -> tuple[list[float], list[float]]:
    """At every tick, the prior adversary's log-ratios favouring 0 and favouring 1 of all ticks before it."""
    towards0, towards1, c, d = [], [], 1.0, 1.0
    for tilt0, tilt1 in zip(tau0, tau1, strict=True):
        towards0.append(math.log(c))
        towards1.append(math.log(d))
        x, y = math.exp(-min(tilt1, LARGEST_TILT)) / d, math.exp(-min(tilt0, LARGEST_TILT)) / c
        c, d = ((1.0 - q) * x + q) / (r * x + 1.0 - r), ((1.0 - r) * y + r) / (q * y + 1.0 - q)
    return towards0, towards1
