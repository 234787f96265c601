"""A chain of two states whose q and r follow a schedule that everybody knows, such as the time of day.

Let step t lead from tick t to t+1 with q_t and r_t, q_t + r_t ≤ 1. The law of the states over any ticks is then MTP2,
as that of a chain with the same numbers at every step, and the worst mechanism with tilts τ at every tick is the
product tilt (docs/theory-regime-sets.md, Theorem R15): each side is a Möbius step with the numbers of its own step. So
a stream is charged for the chain of each hour, not for the slowest one all day.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Step = tuple[float, float]
"""q and r."""

_MOST_PERIODS = 10_000
_CONVERGED = 1e-13
ROUNDING = 1e-11
"""Nats: exceeds the rounding of a period and what is left when its repetition has converged."""


def scheduled_loss(steps: Sequence[Step], tau0: float, tau1: float) -> float:
    """The loss of an endless stream, the largest at any tick, with these tilts at every tick and a periodic schedule.

    `steps` is one period. ValueError where a step has q + r above 1, or numbers outside of (0, 1).
    """
    for place, (q, r) in enumerate(steps):
        if not (0 < q < 1 and 0 < r < 1 and q + r <= 1):
            raise ValueError(
                f"step {place}: q is {q!r}, r is {r!r}; inside (0, 1) and q + r at most 1 is needed"
            )
    if not steps:
        raise ValueError("a schedule has at least one step")
    ones = _periodic_shares(steps)
    backwards = [_reversed(step, ones[t], ones[(t + 1) % len(steps)]) for t, step in enumerate(steps)]
    return max(_directed(steps, backwards, bit, tau) for bit, tau in ((0, tau0), (1, tau1)))


def _directed(steps: Sequence[Step], backwards: Sequence[Step], bit: int, tau: float) -> float:
    """Towards one bit: what the future and the past of every tick tell, and its own tilt."""
    tilt, period = math.exp(tau), len(steps)
    future = _sides([_towards(step, bit) for step in reversed(steps)], tilt)
    past = _sides([_towards(step, bit) for step in backwards], tilt)
    # After so many steps back from its end the future of tick period − 1 − place is known; of the past likewise.
    ahead = [future[period - 1 - t] for t in range(period)]
    behind = [past[t - 1] for t in range(period)]
    return max(tau + math.log(f) + math.log(b) for f, b in zip(ahead, behind, strict=True)) + ROUNDING


def _sides(steps: Sequence[Step], tilt: float) -> list[float]:
    """The ratio of a side after each step of a period that has been repeated until it changes no more."""
    ratio = 1.0
    for _ in range(_MOST_PERIODS):
        before, found = ratio, []
        for q, r in steps:
            tilted = tilt * ratio
            ratio = ((1 - q) * tilted + q) / (r * tilted + (1 - r))
            found.append(ratio)
        if abs(ratio - before) <= _CONVERGED * before:
            return found
    raise ValueError("the schedule forgets too slowly for its loss to be computed")


def _towards(step: Step, bit: int) -> Step:
    return step if bit == 0 else (step[1], step[0])


def _periodic_shares(steps: Sequence[Step]) -> list[float]:
    """The share of ones at each tick of a period, once it repeats."""
    slope, constant = 1.0, 0.0
    for q, r in steps:
        slope, constant = slope * (1 - q - r), constant * (1 - q - r) + q
    share = constant / (1 - slope)
    found = []
    for q, r in steps:
        found.append(share)
        share = share * (1 - q - r) + q
    return found


def _reversed(step: Step, before: float, after: float) -> Step:
    """The step back in time: from 0 and from 1 at its end, the share of ones before and after it being known."""
    q, r = step
    return before * r / (1 - after), (1 - before) * q / after
