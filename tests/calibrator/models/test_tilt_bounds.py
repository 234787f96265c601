"""What is remembered of losses says the same as the loss itself."""

from __future__ import annotations

import random

import pytest

from hushmq.calibrator.models.tilt_bounds import TiltBounds
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss
from tests.calibrator.test_more_states import around

BOXES = [
    BinaryTheta(0.01, 0.02, 0.02, 0.05),
    BinaryTheta(0.2, 0.3, 0.1, 0.3),
    BinaryTheta(0.4, 0.6, 0.45, 0.7),
]


@pytest.mark.parametrize("adversary", ["prior", "informed"])
@pytest.mark.parametrize("theta", BOXES)
def test_a_remembered_answer_is_the_right_one(theta: BinaryTheta, adversary: Adversary) -> None:
    """Asked in any order, about tilts however close to the largest: the answer is whether the loss is within ε."""
    epsilon = random.Random(str(theta)).uniform(0.5, 2.0)
    low, high = 0.0, epsilon
    while high - low > 1e-9:
        middle = (low + high) / 2
        within = loss(theta, tau0=middle, tau1=middle, adversary=adversary) <= epsilon
        low, high = (middle, high) if within else (low, middle)
    rng, bounds = random.Random(7), TiltBounds()
    asked = [low * rng.uniform(0.0, 2.0) for _ in range(20)] + [low * (1 - 1e-6), high * (1 + 1e-6)]
    rng.shuffle(asked)
    for tau in asked * 2:
        within = loss(theta, tau0=tau, tau1=tau, adversary=adversary) <= epsilon
        assert bounds.keeps(theta, tau, epsilon, adversary) is within, tau
    # Another ε or adversary is another question.
    assert not bounds.keeps(theta, low, epsilon * 0.99, adversary)
    assert bounds.keeps(theta, low, epsilon, "prior")


def test_the_same_for_more_states() -> None:
    """A tilt that is proved to keep ε does so again, a smaller one too, a larger one not."""
    theta, bounds = around(0.2).chains, TiltBounds()
    epsilon = theta.constant_loss(0.5, 0.5, "prior")
    assert not bounds.keeps(theta, 0.51, epsilon, "prior")
    assert bounds.keeps(theta, 0.5, epsilon, "prior")
    assert bounds.keeps(theta, 0.3, epsilon, "prior")
    assert not bounds.keeps(theta, 0.505, epsilon, "prior")
