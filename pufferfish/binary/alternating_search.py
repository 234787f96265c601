"""The largest loss on a timeline of a negatively correlated chain, q+r ≥ 1, for both adversaries.

The recursion visits every tick. Runs longer than twice the forgetting time are shortened to that length, because their
middle ticks depend on neither end; an even number of ticks is removed, because the two tilts alternate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary import alternating
from hushmq.pufferfish.binary.directed_chain import forgetting_time
from hushmq.pufferfish.binary.known_envelope import Envelope
from hushmq.pufferfish.mobius.ratio_orbit import LARGEST_TILT
from hushmq.pufferfish.timeline.entry import LossAtTick
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_nats


def largest_alternating_loss(
    runs: TiltRuns,
    q: float,
    r: float,
    window: range,
    *,
    adversary: Adversary,
    endless: bool,
    best: LossAtTick,
) -> LossAtTick:
    """The larger of `best` and the largest loss in the runs of the window, towards either state, with its tick."""
    memory = forgetting_time(q, r)
    low = runs.runs_touching(runs.edges[window.start] - memory, runs.edges[window.start]).start
    high = runs.runs_touching(runs.edges[window.stop] - 1, runs.edges[window.stop] + memory).stop
    ticks: list[int] = []
    tau0: list[float] = []
    tau1: list[float] = []
    begin = end = 0
    for k in range(low, high):
        if k == window.start:
            begin = len(ticks)
        length = runs.edges[k + 1] - runs.edges[k]
        kept = length if length <= 2 * memory + 2 else 2 * memory + 2 - length % 2
        half = kept // 2
        ticks.extend(range(runs.edges[k], runs.edges[k] + half))
        ticks.extend(range(runs.edges[k + 1] - (kept - half), runs.edges[k + 1]))
        tau0.extend([to_nats(runs.tilts[k][0])] * kept)
        tau1.extend([to_nats(runs.tilts[k][1])] * kept)
        if k == window.stop - 1:
            end = len(ticks)
    left0, left1 = alternating.prior_log_ratios(q, r, tau0, tau1)
    right0, right1 = (side[::-1] for side in alternating.prior_log_ratios(q, r, tau0[::-1], tau1[::-1]))
    largest_known_gain = 0.0  # upper bound on what known states add to a loss
    if adversary == "informed":
        # ξ = m·C, where tilt and ratio favour the same state.
        highest = max(
            min(tau, LARGEST_TILT) + max(sides)
            for favoured, left, right in ((tau0, left0, right0), (tau1, left1, right1))
            for tau, *sides in zip(favoured, left, right, strict=True)
        )
        largest_known_gain = 2.0 * Envelope(q, r, 1.0, math.exp(highest)).beyond(0)
    loss, tick = best
    for favoured, other, left, right, chain in (
        (tau0, tau1, left0, right0, (q, r)),
        (tau1, tau0, left1, right1, (r, q)),
    ):
        prior = {i: favoured[i] + left[i] + right[i] for i in range(begin, end)}
        for i in sorted(prior, key=lambda i: -prior[i]):
            if prior[i] + largest_known_gain <= loss:
                break  # the remaining ticks have smaller bounds
            here = prior[i]
            if adversary == "informed":
                before = _gains(favoured, other, i, -1, endless)
                after = _gains(favoured, other, i, 1, endless)
                here = (
                    favoured[i]
                    + alternating.largest_known_log_ratio(*chain, before, floor=left[i])
                    + alternating.largest_known_log_ratio(*chain, after, floor=right[i])
                )
            if here > loss:
                loss, tick = here, ticks[i]
    return loss, tick


def _gains(favoured: list[float], other: list[float], i: int, step: int, endless: bool) -> Iterator[float]:
    """The signed tilts at distances 1, 2, … on one side: −τ of the other state at odd distances, τ at even ones."""
    odd = True
    i += step
    while 0 <= i < len(favoured):
        yield -other[i] if odd else favoured[i]
        odd = not odd
        i += step
    while endless:
        yield 0.0
