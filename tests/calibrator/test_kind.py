"""What is remembered of losses says the same as the loss itself."""

from __future__ import annotations

import random

import pytest

from hushmq.calibrator.models.chain_model import contains, keeps, known_loss
from hushmq.pufferfish.binary.stream_loss import Adversary, Box, loss
from tests.calibrator.test_more_states import around

BOXES = [Box(0.01, 0.02, 0.02, 0.05), Box(0.2, 0.3, 0.1, 0.3), Box(0.4, 0.6, 0.45, 0.7)]


@pytest.mark.parametrize("adversary", ["prior", "informed"])
@pytest.mark.parametrize("theta", BOXES)
def test_a_remembered_answer_is_the_right_one(theta: Box, adversary: Adversary) -> None:
    """Asked in any order, about tilts however close to the largest: the answer is whether the loss is within ε."""
    epsilon = random.Random(str(theta)).uniform(0.5, 2.0)
    low, high = 0.0, epsilon
    while high - low > 1e-9:
        middle = (low + high) / 2
        within = loss(theta, tau0=middle, tau1=middle, adversary=adversary) <= epsilon
        low, high = (middle, high) if within else (low, middle)
    rng = random.Random(7)
    asked = [low * rng.uniform(0.0, 2.0) for _ in range(20)] + [low * (1 - 1e-6), high * (1 + 1e-6)]
    rng.shuffle(asked)
    for tau in asked * 2:
        within = loss(theta, tau0=tau, tau1=tau, adversary=adversary) <= epsilon
        assert keeps(theta, tau, epsilon, adversary) is within, tau
    # Another ε or adversary is another question.
    assert not keeps(theta, low, epsilon * 0.99, adversary)
    assert keeps(theta, low, epsilon, "prior")


def test_the_same_for_more_states() -> None:
    """A tilt that is proved to keep ε does so again, a smaller one too, a larger one not."""
    theta = around(0.2).chains
    epsilon = known_loss(theta, 0.5, 0.5, "prior")
    assert not keeps(theta, 0.51, epsilon, "prior")
    assert keeps(theta, 0.5, epsilon, "prior")
    assert keeps(theta, 0.3, epsilon, "prior")
    assert not keeps(theta, 0.505, epsilon, "prior")


def test_a_class_contains_its_own_kind() -> None:
    """A box is in a wider box and a class in a wider class; one is never in the other."""
    wide, narrow = around(0.3).chains, around(0.2).chains
    assert contains(wide, narrow)
    assert not contains(narrow, wide)
    assert contains(Box(0.1, 0.4, 0.1, 0.4), Box(0.2, 0.3, 0.1, 0.4))
    assert not contains(Box(0.1, 0.4, 0.1, 0.4), Box(0.2, 0.3, 0.09, 0.4))
    assert not contains(wide, BOXES[0])
    assert not contains(BOXES[0], wide)
