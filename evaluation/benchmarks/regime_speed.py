"""Chains with hidden regimes: the largest tilts, what a device computes, and a charge of a long history.

The chain of two regimes is heart rate N10's. Times are processor seconds, the least of several, in plain Python.
"""

from __future__ import annotations

from collections.abc import Iterator

from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.calibration_speed import fastest
from hushmq.pufferfish.regimes.regime_bound import StridedRegimes
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta
from hushmq.pufferfish.regimes.regime_tilts import certified_tilts
from hushmq.pufferfish.timeline.entry import Entry

TWO = RegimeChain.of([[289 / 290, 1 / 290], [1 / 290, 289 / 290]], [(0.0473, 0.3827), (0.4536, 0.0264)])
THREE = RegimeChain.of(
    [[0.99, 0.008, 0.002], [0.006, 0.99, 0.004], [0.002, 0.008, 0.99]],
    [(0.03, 0.3), (0.2, 0.2), (0.4536, 0.0264)],
)
AIMS = {2: "≤ 20 ms", 3: "≤ 60 ms"}
EPSILON = 4.0
TICKS, WINDOW = 10**6, 3600


def run() -> Iterator[Row]:
    """The rows of this benchmark."""
    for chain in (TWO, THREE):
        for stride in (1, 5, 200):
            words = (
                f"{chain.regimes} regimes, every tick"
                if stride == 1
                else f"{chain.regimes} regimes, stride {stride}"
            )
            tilts = certified_tilts(chain, EPSILON, stride)
            seconds, _ = fastest(lambda: certified_tilts(chain, EPSILON, stride))  # noqa: B023
            yield Row(f"largest tilts, {words}", 1e3 * seconds, "ms", aim=AIMS[chain.regimes])
            seconds, _ = fastest(lambda: StridedRegimes(chain, stride).directed_losses(*tilts))  # noqa: B023
            yield Row(f"a device's check, {words}", 1e3 * seconds, "ms", aim="≤ 50 ms")
    theta = RegimeTheta.of([TWO])
    tau0, tau1 = theta.largest_tilts(EPSILON, "prior")
    timeline = theta.timeline("prior", [Entry(0, TICKS - 1, tau0, tau1)])
    again = Entry(TICKS, TICKS + WINDOW - 1, tau0, tau1)
    yield Row(
        "a charge at 10⁶ ticks", 1e3 * fastest(lambda: timeline.price_with(again))[0], "ms", aim="≤ 5 ms"
    )
