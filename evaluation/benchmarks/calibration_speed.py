"""Calibration of a binary stream: ours against bisection on the papers' recursion.

`plain_noise` is what one writes first: bisect the tilt of each direction, and for each try iterate CGSSY's recursion
tick by tick until it stands still; for the informed adversary also from every known instant, both values. Both sides
are checked to give the same noise before a time is printed.

Times are processor seconds, the least of several, so that other work on the machine does not count.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import optimal_noise

T = TypeVar("T")

SHORTEST = 1e-3
"""The least time measured, in seconds: processor clocks may have a coarse resolution."""

STILL = 1e-13
"""The change at which a recursion has converged."""


def fastest(work: Callable[[], T], *, rounds: int = 5, times: int = 1) -> tuple[float, T]:
    """The least processor time of one call over some rounds of several calls each, and what it returned.

    A round too short for the clock goes on until it is long enough.
    """
    best = math.inf
    for _ in range(rounds):
        begin, calls, spent = time.process_time(), 0, 0.0
        while spent < SHORTEST:
            for _ in range(times):
                result = work()
            calls, spent = calls + times, time.process_time() - begin
        best = min(best, spent / calls)
    return best, result


def plain_loss(q: float, r: float, tau: float, adversary: Adversary) -> float:
    """The loss favouring 0 of an endless stream, q+r < 1, by iteration until convergence."""
    m, ratio, before = math.exp(tau), 1.0, 0.0
    while abs(ratio - before) > STILL * ratio:
        before, ratio = ratio, (m * ratio * (1 - q) + q) / (m * ratio * r + 1 - r)
    side = math.log(ratio)
    if adversary == "informed":
        # From a known state y the ratio starts at P[0][y]/P[1][y], and the log-ratio of y alone is subtracted.
        for seen, known in (((1 - q) / r, (1 - q, r)), (q / (1 - r), (q, 1 - r))):
            own, alone = seen, known
            while True:
                side = max(side, math.log(own) - math.log(alone[0] / alone[1]))
                step = (m * own * (1 - q) + q) / (m * own * r + 1 - r)
                moved = abs(step - own) > STILL * own or abs(alone[0] - alone[1]) > STILL
                own = step
                alone = ((1 - q) * alone[0] + q * alone[1], r * alone[0] + (1 - r) * alone[1])
                if not moved:
                    break
    return tau + 2 * side


def plain_noise(q: float, r: float, epsilon: float, adversary: Adversary) -> BinaryNoise:
    """The noise with loss ε in both directions, by bisection."""

    def limit(q: float, r: float) -> float:
        low, high = 0.0, epsilon
        while high - low > 1e-12 * epsilon:
            middle = (low + high) / 2
            if plain_loss(q, r, middle, adversary) <= epsilon:
                low = middle
            else:
                high = middle
        return math.exp(low)

    m0, m1 = limit(q, r), limit(r, q)
    return BinaryNoise((m0 - 1) / (m0 * m1 - 1), (m1 - 1) / (m0 * m1 - 1))


CHAINS = {
    "heart rate, q=.0893 r=.1092": (0.0893, 0.1092),
    "slow, q=.001 r=.002": (0.001, 0.002),
}


def run() -> Iterator[Row]:
    """One chain with q+r < 1 for both adversaries, then several chains and negative correlation."""
    aims: tuple[tuple[Adversary, int, str], ...] = (("prior", 50, "≤ 20 µs"), ("informed", 5, "≤ 2 ms"))
    for adversary, times, aim in aims:
        for name, (q, r) in CHAINS.items():
            ours, noise = fastest(
                partial(optimal_noise, BinaryTheta.point(q, r), 1.0, adversary), rounds=30, times=times
            )
            plain, check = fastest(partial(plain_noise, q, r, 1.0, adversary), rounds=1)
            if not math.isclose(noise.rho0, check.rho0, rel_tol=1e-8):
                raise RuntimeError(f"{name}, {adversary}: {noise} and {check} disagree")
            yield Row(
                f"calibrate at ε=1, {adversary}, {name}",
                ours * 1e6,
                "µs",
                f"bisection on the recursion ({plain * 1e3:,.1f} ms)",
                plain / ours,
                aim,
            )
        for name, theta in (
            ("box [.05, .2]²", BinaryTheta(0.05, 0.2, 0.05, 0.2)),
            ("alternating, q=.7 r=.6", BinaryTheta.point(0.7, 0.6)),
        ):
            ours, _ = fastest(partial(optimal_noise, theta, 1.0, adversary), rounds=3)
            yield Row(f"calibrate at ε=1, {adversary}, {name}", ours * 1e6, "µs")
