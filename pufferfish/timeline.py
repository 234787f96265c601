"""The timeline: the whole history of a stream as one function τ(t), and what it lets anyone infer.

Entries add up: at a tick covered by several, the tilt is the sum. The price is the largest loss at any tick,
covered or not, for the worst chain in Θ; it is certified, so never below the true supremum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pufferfish.binary import Adversary, Box


@dataclass(frozen=True, slots=True)
class Entry:
    """A thing published: it tilts every tick from first to last, both included, by at most τ0 and τ1."""

    first: int
    last: int
    tau0: float
    tau1: float

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise ValueError(f"last is {self.last}; it must not be before first, {self.first}")
        for name, tau in (("tau0", self.tau0), ("tau1", self.tau1)):
            if not (0.0 <= tau < math.inf):
                raise ValueError(f"{name} is {tau!r}; a tilt is a finite number of nats, 0 or more")


@dataclass(frozen=True, slots=True)
class Price:
    """The largest loss, and the tick where it is reached; no tick where nothing was published."""

    epsilon: float
    tick: int | None


def price(entries: Iterable[Entry], theta: Box, adversary: Adversary = "informed") -> Price:
    """The price of a history: the largest loss at any tick, for the worst chain in Θ."""
    entries = list(entries)
    if not entries:
        return Price(0.0, None)
    start = min(entry.first for entry in entries)
    stop = max(entry.last for entry in entries)
    tau0 = [0.0] * (stop - start + 1)
    tau1 = [0.0] * (stop - start + 1)
    for entry in entries:
        for tick in range(entry.first - start, entry.last - start + 1):
            tau0[tick] += entry.tau0
            tau1[tick] += entry.tau1
    best = Price(-1.0, None)
    for q, r in theta.worst():
        for a, b in ((tau0, tau1), (tau1, tau0)):
            here = (q, r) if a is tau0 else (r, q)
            right = _sides(a[::-1], b[::-1], *here, adversary)[::-1]
            left = _sides(a, b, *here, adversary)
            for tick, tau in enumerate(a):
                total = tau + left[tick] + right[tick]
                total += 2.0**-44 * (1.0 + total)
                if total > best.epsilon:
                    best = Price(total, tick + start)
    return best


def _sides(tau: list[float], other: list[float], q: float, r: float, adversary: Adversary) -> list[float]:
    """For every tick, the largest log-ratio favouring 0 that the ticks before it can give."""
    lam = 1.0 - q - r
    horizon = 2 if adversary == "prior" or lam == 0.0 else 2 + math.ceil(-40.0 / math.log(abs(lam)))
    sides = []
    for tick in range(len(tau)):
        best = -math.inf
        # The nearest known instant, `known` ticks before this one, in state 0 or 1; or none at all.
        seeds = [(tick + 1, 1.0)]
        if adversary == "informed":
            seeds += [(known, c) for known in range(1, horizon + tick + 1) for c in (math.inf, 0.0)]
        for known, seed in seeds:
            ratio, base = seed, seed
            for distance in range(known, 0, -1):
                step = tick - distance
                tilted = tau if lam >= 0.0 or distance % 2 == 0 else other
                gain = tilted[step] if step >= 0 else 0.0
                gain = gain if lam >= 0.0 or distance % 2 == 0 else -gain
                ratio = _step(ratio * math.exp(gain), q, r)
                base = _step(base, q, r)
            best = max(best, math.log(ratio / base))
        sides.append(best)
    return sides


def _step(x: float, q: float, r: float) -> float:
    """P(·|0)/P(·|1) one tick further from what has the ratio x."""
    if x == math.inf:
        return (1.0 - q) / r
    return ((1.0 - q) * x + q) / (r * x + 1.0 - r)
