"""Θ of k states asks its engines for the adversary that it is asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.categorical.test_transition_intervals import THREE

THETA = CategoricalTheta.point(THREE)


@pytest.mark.parametrize(
    "allowed",
    [
        lambda adversary: 1 / THETA.timeline(adversary, [Entry(0, 99, 0.1, 0.1)]).price().epsilon,
        lambda adversary: 1 / THETA.constant_loss(0.1, 0.1, adversary),
        lambda adversary: THETA.largest_tilts(1.0, adversary)[0],
        lambda adversary: THETA.window_limit("least-noise", 1.0, adversary),
        lambda adversary: THETA.window_tilt("least-noise", 1.0, adversary),
        lambda adversary: THETA.optimal_noise(1.0, adversary).tilts[0],
    ],
)
def test_the_informed_adversary_is_allowed_less(allowed: Callable[[Adversary], float]) -> None:
    """The number for the weaker adversary is never returned in place of the other; they differ by a little."""
    assert 0.5 * allowed("prior") < allowed("informed") < allowed("prior")
