"""Noise and loss through the public names are those of the mathematics, for two states and for more."""

from __future__ import annotations

import math

import pytest

from hushmq import (
    BinaryNoise,
    BinaryTheta,
    CategoricalTheta,
    Entry,
    loss,
    optimal_noise,
    price,
)
from hushmq.pufferfish.adversary import Adversary

PRESENCE = BinaryTheta(0.05, 0.15, 0.08, 0.12)
STAYS = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]
ACTIVITY = CategoricalTheta.point(STAYS)


@pytest.mark.parametrize("adversary", ["prior", "informed"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_best_noise_keeps_its_loss_and_wastes_none(adversary: Adversary, epsilon: float) -> None:
    """At most ε, and all of it."""
    noise = optimal_noise(PRESENCE, epsilon=epsilon, adversary=adversary)
    found = loss(PRESENCE, noise, adversary=adversary)
    assert epsilon * (1 - 1e-6) <= found <= epsilon


def test_more_states_are_certified() -> None:
    """Randomized response of three states, with a proved loss of at most ε and all of it."""
    noise = optimal_noise(ACTIVITY, epsilon=2.0, adversary="prior")
    assert noise.states == 3
    assert 0.0 < noise.signal < 1.0
    assert 2.0 * (1 - 1e-6) <= loss(ACTIVITY, noise, adversary="prior") <= 2.0


def test_a_larger_theta_costs_more_noise() -> None:
    """Θ between two matrices holds the chain inside them, and the promise is for all of it."""
    low = [[max(0.0, p - 0.05) for p in row] for row in STAYS]
    high = [[min(1.0, p + 0.05) for p in row] for row in STAYS]
    wide = CategoricalTheta.between(low, high)
    assert wide.contains(ACTIVITY)
    narrow_noise, wide_noise = (
        optimal_noise(one, epsilon=2.0, adversary="prior") for one in (ACTIVITY, wide)
    )
    assert wide_noise.signal < narrow_noise.signal


@pytest.mark.parametrize("theta", [PRESENCE, ACTIVITY], ids=["two", "three"])
def test_a_history_costs_more_with_every_entry(theta: BinaryTheta | CategoricalTheta) -> None:
    """Nothing costs nothing; an entry that overlaps another adds to it."""
    entries = [Entry(0, 9, 0.1, 0.1), Entry(5, 14, 0.1, 0.1)]
    losses = [price(theta, entries[:count], adversary="prior").epsilon for count in range(3)]
    assert losses[0] == 0.0
    assert losses == sorted(losses)
    assert losses[1] < losses[2]


def test_what_is_not_proved_is_infinite() -> None:
    """Θ holds chains that never move, and so never forget."""
    stuck = CategoricalTheta.between(
        low=[[0.5 if u == x else 0.0 for u in range(3)] for x in range(3)],
        high=[[1.0 if u == x else 0.5 for u in range(3)] for x in range(3)],
    )
    noise = optimal_noise(ACTIVITY, epsilon=2.0, adversary="prior")
    assert loss(stuck, noise, adversary="prior") == math.inf
    assert price(stuck, [Entry(0, 99, 0.1, 0.1)], adversary="prior").epsilon > 1.0


def test_more_states_are_priced_for_the_informed_adversary_too() -> None:
    """He learns at least what the prior one learns, so he gets at least as much noise."""
    noise = optimal_noise(ACTIVITY, epsilon=1.0, adversary="informed")
    assert loss(ACTIVITY, noise, adversary="prior") < loss(ACTIVITY, noise, adversary="informed") <= 1.0
    one = [Entry(0, 99, 0.1, 0.1)]
    informed = price(ACTIVITY, one, adversary="informed").epsilon
    assert price(ACTIVITY, one, adversary="prior").epsilon <= informed


def test_what_is_not_offered_is_refused() -> None:
    """Noise for another number of states; an entry that ends before it begins."""
    with pytest.raises(ValueError, match="for 3 states, noise for 2"):
        loss(ACTIVITY, BinaryNoise(0.3, 0.3), adversary="prior")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="last is 0"):
        Entry(1, 0, 0.1, 0.1)
