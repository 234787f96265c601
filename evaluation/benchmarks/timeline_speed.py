"""Pricing a history of 10⁶ ticks: ours, over runs of equal tilt, against the recursion over all ticks.

`plain_prior` is CGSSY's forward and backward recursion at every tick. `plain_informed` also starts it at every known
instant with both values and follows it as far as the chain remembers; that takes minutes for 10⁶ ticks, so it is timed
on its first ticks and multiplied, and the rows say so. Both sides are checked to give the same price.

Times are processor seconds, the least of several, so that other work on the machine does not count.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from functools import partial

from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.calibration_speed import fastest
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import BinaryTimeline, price
from hushmq.pufferfish.timeline.entry import Entry

TICKS = 10**6
Q, R = 0.0893, 0.1092
THETA = BinaryTheta.point(Q, R)
SAMPLE = 2_000
BUDGET_S = 0.5


def few() -> list[Entry]:
    """A sanitized stream and ten windows, some of which overlap."""
    windows = [Entry(1 + k * 90_000, (k + 1) * 100_000, 0.05 + k / 500, 0.05) for k in range(10)]
    return [Entry(1, TICKS, 0.1, 0.08), *windows]


def many(runs: int) -> list[Entry]:
    """Runs of equal length with different tilts, so that nothing is cached."""
    rng, length = random.Random(runs), TICKS // runs
    return [
        Entry(1 + k * length, (k + 1) * length, rng.uniform(0, 0.3), rng.uniform(0, 0.3)) for k in range(runs)
    ]


def per_tick(entries: Sequence[Entry], ticks: int) -> tuple[list[float], list[float]]:
    """Both tilts of the ticks 1 … ticks, summed over the entries."""
    tau0, tau1 = [0.0] * ticks, [0.0] * ticks
    for entry in entries:
        for tick in range(entry.first - 1, min(entry.last, ticks)):
            tau0[tick] += entry.tau0
            tau1[tick] += entry.tau1
    return tau0, tau1


def one_side(q: float, r: float, tau: Sequence[float]) -> list[float]:
    """The log-ratio from the ticks before each tick: C ← (m·C·(1−q)+q)/(m·C·r+1−r)."""
    sides, ratio = [], 1.0
    for t in tau:
        sides.append(math.log(ratio))
        seen = math.exp(t) * ratio
        ratio = (seen * (1 - q) + q) / (seen * r + 1 - r)
    return sides


def one_side_known(q: float, r: float, tau: Sequence[float]) -> list[float]:
    """The largest log-ratio from before each tick, over no known state or the nearest known instant and its state."""
    memory = math.ceil(math.log(1e-12) / math.log(1 - q - r))
    sides = one_side(q, r, tau)
    for known in range(-memory, len(tau)):
        for from0, from1 in ((1 - q, r), (q, 1 - r)):
            # P^l[0][y] and P^l[1][y], and the ratio with the outputs in between.
            p0, p1, ratio = from0, from1, from0 / from1
            for tick in range(known + 1, min(known + memory, len(tau))):
                if tick >= 0:
                    sides[tick] = max(sides[tick], math.log(ratio) - math.log(p0 / p1))
                seen = ratio * (math.exp(tau[tick]) if tick >= 0 else 1.0)
                ratio = (seen * (1 - q) + q) / (seen * r + 1 - r)
                p0, p1 = (1 - q) * p0 + q * p1, r * p0 + (1 - r) * p1
    return sides


def plain(tau0: Sequence[float], tau1: Sequence[float], adversary: Adversary) -> float:
    """The largest loss at any of these ticks, with tilt 0 before and after them."""
    side, worst = (one_side if adversary == "prior" else one_side_known), 0.0
    for q, r, tau in ((Q, R, tau0), (R, Q, tau1)):
        left, right = side(q, r, tau), side(q, r, tau[::-1])[::-1]
        worst = max(worst, *(t + a + c for t, a, c in zip(tau, left, right, strict=True)))
    return worst


def run() -> Iterator[Row]:
    """From scratch and with one more entry, for histories of few and of many runs."""
    for adversary in ("prior", "informed"):
        yield from _rows("11 entries", few(), adversary)
        thousands = _rows("10⁴ different runs", many(10**4), adversary)
        yield from thousands
        yield from _rows("10⁵ different runs", many(10**5), adversary)
        # From scratch the time grows with the number of runs, not of ticks: the aim ends here.
        yield Row(
            f"different runs priced in {BUDGET_S} s, {adversary}",
            1e4 * BUDGET_S / (thousands[0].value or math.inf),
            "runs",
        )


def _rows(name: str, entries: list[Entry], adversary: Adversary) -> list[Row]:
    ours, found = fastest(partial(price, entries, THETA, adversary), rounds=2)
    slow, against = _plain(entries, adversary, found.epsilon)
    timeline = BinaryTimeline(THETA, adversary, entries)
    last = Entry(TICKS + 1, TICKS + 3_600, 0.1, 0.1)
    middle = Entry(TICKS // 2, TICKS // 2 + 3_600, 0.1, 0.1)
    rows = [
        Row(
            f"10⁶ ticks from scratch, {adversary}, {name}",
            ours,
            "s",
            against,
            slow / ours,
            f"≤ {BUDGET_S} s",
        )
    ]
    for where, entry in (("at the end", last), ("in the middle", middle)):
        more, _ = fastest(partial(timeline.price_with, entry))
        rows.append(
            Row(
                f"one more entry of an hour {where}, {adversary}, {name}",
                more * 1e3,
                "ms",
                against,
                slow / more,
                "≤ 5 ms",
            )
        )
    return rows


def _plain(entries: list[Entry], adversary: Adversary, found: float) -> tuple[float, str]:
    """The time of the plain recursion over 10⁶ ticks, after a check that it agrees, and a note on how it was timed."""
    ticks = TICKS if adversary == "prior" else SAMPLE
    tau0, tau1 = per_tick(entries, ticks)
    seconds, worst = fastest(partial(plain, tau0, tau1, adversary), rounds=1)
    if adversary == "informed":
        begun = [
            Entry(one.first, min(one.last, ticks), one.tau0, one.tau1)
            for one in entries
            if one.first <= ticks
        ]
        found = price(begun, THETA, adversary).epsilon
        seconds *= TICKS / ticks
    if not math.isclose(worst, found, rel_tol=1e-6):
        raise RuntimeError(f"the prices disagree: {found} and, tick by tick, {worst}")
    if adversary == "prior":
        return seconds, f"the recursion over all ticks ({seconds:,.1f} s)"
    return seconds, f"the recursion from every known tick ({seconds:,.0f} s: {ticks:,} ticks timed)"
