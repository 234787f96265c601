"""Theorem 13: whatever settings a device accepts, a chain in `start` loses at most the stated number."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.deceived_loss import deceived_loss, deceived_public_loss

START, FLOOR = BinaryTheta(0.05, 0.45, 0.1, 0.5), BinaryTheta(0.3, 0.35, 0.25, 0.3)
LIVELY_START, LIVELY_FLOOR = BinaryTheta(0.2, 0.8, 0.2, 0.85), BinaryTheta(0.65, 0.7, 0.6, 0.7)


def lost(q: float, r: float, noises: Sequence[BinaryNoise], *, informed: bool) -> float:
    """By definition, over all paths and outputs: the largest log ratio about any instant of a chain.

    Each tick has its own noise. The informed adversary knows the states at any set of other instants.
    """
    n = len(noises)
    paths = np.array(list(itertools.product((0, 1), repeat=n)))
    P = np.array([[1 - q, q], [r, 1 - r]])
    prior = np.array([r, q])[paths[:, 0]] / (q + r) * np.prod(P[paths[:, :-1], paths[:, 1:]], axis=1)
    emissions = np.array([[[1 - one.rho0, one.rho0], [one.rho1, 1 - one.rho1]] for one in noises])
    ticks = np.arange(n)
    likelihood = np.stack(
        [np.prod(emissions[ticks, paths, np.array(z)], axis=1) for z in itertools.product((0, 1), repeat=n)],
        axis=1,
    )
    worst = 0.0
    for instant in range(n):
        others = [tick for tick in range(n) if tick != instant]
        sets = itertools.chain.from_iterable(
            itertools.combinations(others, size) for size in range(3 if informed else 1)
        )
        for known in sets:
            for values in itertools.product((0, 1), repeat=len(known)):
                held = np.all(paths[:, list(known)] == values, axis=1)
                given = []
                for state in (0, 1):
                    here = held & (paths[:, instant] == state)
                    given.append((prior[here] @ likelihood[here]) / prior[here].sum())
                worst = max(worst, float(np.abs(np.log(given[0] / given[1])).max()))
    return worst


def accepted(rng: random.Random, floor: BinaryTheta, epsilon: float, adversary: Adversary) -> BinaryNoise:
    """A setting that a device accepts: its loss under some Θ that contains the floor is within ε, often just so."""
    while True:
        theta = (
            floor.hull(BinaryTheta.point(*(rng.uniform(0.3, 0.6) for _ in range(2))))
            if rng.random() < 0.3
            else floor
        )
        tau0, tau1 = (math.exp(rng.uniform(-3, 2)) for _ in range(2))
        low, high = 0.0, 20.0
        for _ in range(40):
            middle = (low + high) / 2
            fits = theta.constant_loss(middle * tau0, middle * tau1, adversary) <= epsilon
            low, high = (middle, high) if fits else (low, middle)
        if low > 0:
            return BinaryNoise.of_tilts(low * tau0, low * tau1)


@pytest.mark.parametrize("adversary", ["prior", "informed"])
@pytest.mark.parametrize(
    ("start", "floor"), [(START, FLOOR), (LIVELY_START, LIVELY_FLOOR)], ids=["slow", "alternating"]
)
def test_no_settings_that_devices_accept_lose_more(
    start: BinaryTheta, floor: BinaryTheta, adversary: Adversary
) -> None:
    """Over all paths and outputs, at the corners of the start, whatever accepted settings the ticks carry."""
    rng = random.Random(11)
    epsilon = 2.0
    stated = deceived_loss(start, floor, epsilon, adversary)
    assert stated > epsilon
    corners = list(itertools.product((start.q_low, start.q_high), (start.r_low, start.r_high)))
    for _ in range(3):
        noises = [accepted(rng, floor, epsilon, adversary) for _ in range(6)]
        for q, r in corners:
            assert lost(q, r, noises, informed=adversary == "informed") <= stated * (1 + 1e-9)


@pytest.mark.parametrize("adversary", ["prior", "informed"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_number_is_reached(adversary: Adversary, epsilon: float) -> None:
    """By the least noise for the floor on a long stream of the start's chain, by the recursion itself."""
    start, floor = BinaryTheta.point(0.05, 0.1), BinaryTheta.point(0.3, 0.25)
    stated = deceived_loss(start, floor, epsilon, "prior")
    noise = floor.optimal_noise(epsilon, "prior")
    q, r = start.q_low, start.r_low
    losses = []
    for tau, (a, b) in ((noise.tau0, (q, r)), (noise.tau1, (r, q))):
        ratio = 1.0
        for _ in range(2000):
            m = math.exp(tau) * ratio
            ratio = (m * (1 - a) + a) / (m * b + 1 - b)
        losses.append(tau + 2 * math.log(ratio))
    assert max(losses) == pytest.approx(stated, rel=1e-6)
    assert deceived_loss(start, floor, epsilon, adversary) >= stated


def test_nothing_is_lost_where_nothing_is_deceived() -> None:
    """A floor as wide as the start leaves nothing to deceive: the number is ε."""
    assert deceived_loss(START, START, 3.0, "prior") == pytest.approx(3.0, rel=1e-6)
    tau = min(START.largest_tilts(3.0, "prior"))
    assert deceived_public_loss(START, START, 3.0, "prior") == START.constant_loss(tau, tau, "prior") <= 3.0


def test_more_states() -> None:
    """With as many states as a policy has; infinite where nothing is proved of the start."""
    floor = CategoricalTheta.of(
        TransitionIntervals.point([[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.3, 0.3, 0.4]])
    )
    slower = CategoricalTheta.of(
        TransitionIntervals.point([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])
    )
    stated = deceived_loss(slower.hull(floor), floor, 2.0, "prior")
    tau, _ = floor.largest_tilts(2.0, "prior")
    assert 2.0 < slower.constant_loss(tau, tau, "prior") <= stated
