"""Chains whose numbers follow the time of day: the loss is that of each step, against all likelihoods."""

from __future__ import annotations

import math
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from scipy.optimize import linprog

from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.scheduled_chain import Step, scheduled_loss


def law(steps: list[Step], ticks: int, first: int) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """All sequences of some ticks of the repeated schedule from a tick on, and their probabilities."""
    share = 0.5
    for place in range(-60 * len(steps), first):
        q, r = steps[place % len(steps)]
        share = share * (1 - q - r) + q
    paths = list(product(range(2), repeat=ticks))
    chances = []
    for path in paths:
        chance = share if path[0] else 1 - share
        for place, (x, y) in enumerate(pairwise(path)):
            q, r = steps[(first + place) % len(steps)]
            kernel = ((1 - q, q), (r, 1 - r))
            chance *= kernel[x][y]
        chances.append(chance)
    return paths, np.array(chances)


def largest(steps: list[Step], ticks: int, first: int, tau0: float, tau1: float) -> float:
    """Over all likelihoods with these tilts at every tick, by linear programs; secrets at every tick."""
    paths, chances = law(steps, ticks, first)
    number = {path: place for place, path in enumerate(paths)}
    rows = []
    for path in paths:
        for tick in range(ticks):
            other = (*path[:tick], 1 - path[tick], *path[tick + 1 :])
            row = np.zeros(len(paths))
            row[number[path]], row[number[other]] = 1.0, -math.exp(tau0 if path[tick] == 0 else tau1)
            rows.append(row)
    worst = 0.0
    for tick, bit in product(range(ticks), range(2)):
        mine = np.array([path[tick] == bit for path in paths])
        a, b = np.where(mine, chances, 0), np.where(mine, 0, chances)
        found = linprog(
            -a / a.sum(), A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=[b / b.sum()], b_eq=[1.0]
        )
        worst = max(worst, math.log(-found.fun))
    return worst


SCHEDULE: list[Step] = [(0.4, 0.5), (0.5, 0.35), (0.42, 0.4)]


def test_no_likelihood_loses_more_and_long_streams_lose_as_much() -> None:
    """Six ticks of a quick schedule, from each phase: never above the endless loss, and within 0.5% of it."""
    claimed = scheduled_loss(SCHEDULE, 0.5, 0.3)
    found = [largest(SCHEDULE, 6, first, 0.5, 0.3) for first in range(3)]
    assert max(found) <= claimed
    assert max(found) >= 0.995 * claimed


def test_one_step_is_the_chain_itself() -> None:
    """The same numbers at every tick: the loss of a single chain."""
    for q, r in ((0.1, 0.3), (0.05, 0.02), (0.5, 0.4)):
        known = BinaryTheta.point(q, r).constant_loss(0.4, 0.2, "prior")
        assert scheduled_loss([(q, r)] * 4, 0.4, 0.2) == pytest.approx(known, rel=1e-6)


def test_it_costs_no_more_than_all_chains_of_a_box() -> None:
    """Θ of intervals lets every step have another kernel: a schedule inside it is covered, at a higher price."""
    draw = Random(3)
    for _ in range(20):
        steps = [(draw.uniform(0.05, 0.4), draw.uniform(0.05, 0.4)) for _ in range(draw.randint(2, 6))]
        q, r = zip(*steps, strict=True)
        box = BinaryTheta(min(q), max(q), min(r), max(r)).constant_loss(0.3, 0.3, "prior")
        assert scheduled_loss(steps, 0.3, 0.3) <= box * (1 + 1e-9)


def test_the_night_is_not_charged_to_the_day() -> None:
    """A slow night and a quick day: the loss is that of the night where it is long, and far less where it is short."""
    slow, quick = (0.01, 0.01), (0.3, 0.3)
    night = scheduled_loss([slow], 0.05, 0.05)
    long, short = (scheduled_loss([slow] * ticks + [quick] * 200, 0.05, 0.05) for ticks in (2_000, 10))
    assert long == pytest.approx(night, rel=0.02)
    assert short < night / 2
    with pytest.raises(ValueError, match="step 1"):
        scheduled_loss([(0.2, 0.2), (0.7, 0.5)], 0.1, 0.1)
