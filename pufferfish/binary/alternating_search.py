"""Both adversaries on a timeline with q+r ≥ 1, tick by tick.

A run longer than twice the reach is as good as one of twice the reach: in its middle nothing is left of either
end. So long runs are shortened, by an even number of ticks since the two tilts take turns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from hushmq.pufferfish.binary import alternating
from hushmq.pufferfish.binary.directed_chain import reach
from hushmq.pufferfish.binary.known_envelope import Envelope
from hushmq.pufferfish.binary.prior_search import Best
from hushmq.pufferfish.binary.ratio_orbit import LARGEST
from hushmq.pufferfish.binary.stream_loss import Adversary
from hushmq.pufferfish.timeline.tilt_runs import Runs, nats


def search(
    runs: Runs,
    q: float,
    r: float,
    window: range,
    *,
    adversary: Adversary,
    soft: bool,
    endless: bool,
    best: Best,
) -> Best:
    """The largest loss in the runs of the window, towards either state, and its tick; or the best so far."""
    within = reach(q, r)
    low = runs.covering(runs.edges[window.start] - within, runs.edges[window.start]).start
    high = runs.covering(runs.edges[window.stop] - 1, runs.edges[window.stop] + within).stop
    ticks: list[int] = []
    tau0: list[float] = []
    tau1: list[float] = []
    begin = end = 0
    for k in range(low, high):
        if k == window.start:
            begin = len(ticks)
        length = runs.edges[k + 1] - runs.edges[k]
        kept = length if length <= 2 * within + 2 else 2 * within + 2 - length % 2
        half = kept // 2
        ticks.extend(range(runs.edges[k], runs.edges[k] + half))
        ticks.extend(range(runs.edges[k + 1] - (kept - half), runs.edges[k + 1]))
        tau0.extend([nats(runs.tilts[k][0])] * kept)
        tau1.extend([nats(runs.tilts[k][1])] * kept)
        if k == window.stop - 1:
            end = len(ticks)
    left0, left1 = alternating.ratios(q, r, tau0, tau1)
    right0, right1 = (side[::-1] for side in alternating.ratios(q, r, tau0[::-1], tau1[::-1]))
    most = 0.0  # what known instants can add to a loss
    if adversary == "informed":
        # ξ = m·C with the tilt and the ratio that favour the same state.
        highest = max(
            min(tau, LARGEST) + max(sides)
            for own, left, right in ((tau0, left0, right0), (tau1, left1, right1))
            for tau, *sides in zip(own, left, right, strict=True)
        )
        most = 2.0 * Envelope(q, r, 1.0, math.exp(highest), soft=soft).beyond(0)
    loss, tick = best
    for own, other, left, right, chain in (
        (tau0, tau1, left0, right0, (q, r)),
        (tau1, tau0, left1, right1, (r, q)),
    ):
        ignorant = {i: own[i] + left[i] + right[i] for i in range(begin, end)}
        for i in sorted(ignorant, key=lambda i: -ignorant[i]):
            if ignorant[i] + most <= loss:
                break  # nor can any after it be larger
            here = ignorant[i]
            if adversary == "informed":
                before = _gains(own, other, i, -1, endless)
                after = _gains(own, other, i, 1, endless)
                here = (
                    own[i]
                    + alternating.known(*chain, before, soft=soft, floor=left[i])
                    + alternating.known(*chain, after, soft=soft, floor=right[i])
                )
            if here > loss:
                loss, tick = here, ticks[i]
    return loss, tick


def _gains(own: list[float], other: list[float], i: int, step: int, endless: bool) -> Iterator[float]:
    """The signed tilts at distances 1, 2, … on one side: the other state's at odd distances, negative."""
    turn = 1
    i += step
    while 0 <= i < len(own):
        yield -other[i] if turn else own[i]
        turn = 1 - turn
        i += step
    while endless:
        yield 0.0
