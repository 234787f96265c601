"""An endless stream says what its side says in pieces, whatever the chain and the tilt; never less."""

from __future__ import annotations

import random

import pytest

from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.changing_chain import endless_loss, favouring


@pytest.mark.parametrize("seed", range(8))
def test_an_endless_loss_is_that_of_the_pieces(seed: int) -> None:
    """No less than the fixed point of the map in pieces, and more by rounding alone, for q and r down to 1e-6."""
    rng = random.Random(seed)
    for _ in range(12):
        q, r = 10 ** rng.uniform(-6, -0.4), 10 ** rng.uniform(-6, -0.4)
        theta = BinaryTheta(q, min(rng.choice([1.0, 1.3, 20]) * q, 0.5), r, min(1.1 * r, 0.49))
        tau, state = 10 ** rng.uniform(-7, 0.7), rng.choice([0, 1])
        pieces = favouring(theta, state, "informed", tau).endless_loss(tau)
        found = endless_loss(theta, state, "informed", tau)
        assert pieces * (1 - 2**-50) <= found <= pieces * (1 + 1e-12) + 1e-10
