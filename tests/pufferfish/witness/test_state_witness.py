"""Witnesses of more than two states, against all paths of short chains."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import certificate_for, certified_loss
from hushmq.pufferfish.categorical.emission import randomized_response, tilt_of
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.witness.state_witness import (
    BidirectionalChain,
    StateWitness,
    best_for_states,
    least_loss,
    most_persistent_chain,
    reversal,
    stationary,
)

P = ((0.7, 0.2, 0.1), (0.3, 0.5, 0.2), (0.05, 0.15, 0.8))
PI = stationary(P)
BACKWARD = reversal(P)
assert BACKWARD is not None
CHAIN = BidirectionalChain(P, BACKWARD)
SKEWED = ((0.6, 0.3, 0.1), (0.25, 0.5, 0.25), (0.2, 0.2, 0.6))


def test_the_stationary_law_and_the_reversal() -> None:
    """πP = π, and the reversal's flows are the chain's."""
    law = np.array(PI)
    assert law @ np.array(P) == pytest.approx(law, abs=1e-14)
    assert law.sum() == pytest.approx(1.0, abs=1e-14)
    flows = law[:, None] * np.array(P)
    reversed_flows = np.transpose(law[:, None] * np.array(CHAIN.backward))
    assert reversed_flows == pytest.approx(flows, abs=1e-14)


def test_chances_and_paths_are_those_of_all_paths() -> None:
    """Five ticks, every state in the middle: likelihoods and the law of the paths to 1e-12."""
    column = [row[2] for row in SKEWED]
    for state in range(3):
        total, likely = 0.0, 0.0
        law: dict[bytes, float] = {}
        for path in itertools.product(range(3), repeat=5):
            if path[2] != state:
                continue
            weight = PI[path[0]] * math.prod(P[a][b] for a, b in itertools.pairwise(path))
            total += weight
            likely += weight * math.prod(column[x] for x in path)
            law[bytes(path)] = weight
        assert CHAIN.chances(column, 2)[state] == pytest.approx(likely / total, rel=1e-12)
        paths, cumulated = StateWitness(CHAIN, 2, state, 0, 2).paths(state)
        assert len(paths) == len(law) == 81
        for path, chance in zip(paths, np.diff(cumulated, prepend=0.0), strict=True):
            assert chance == pytest.approx(law[path] / total, abs=1e-12)


def test_what_is_shown_is_below_every_certificate() -> None:
    """A lower bound of the loss and a certified upper one, on the same chain: in this order, and not far apart."""
    for tau in (0.3, 1.0, 2.0):
        emission = randomized_response(3, tau)
        theta = CategoricalTheta.of(TransitionIntervals.point(P))
        below = least_loss(CHAIN, emission, emission)
        above = certified_loss(theta, certificate_for(theta, tilt_of(emission)))
        assert tau < below <= above < 4 * below
        witness = best_for_states(CHAIN, emission, ticks=10**12, deviations=3.0)
        right, wrong = (
            CHAIN.chances([row[witness.output] for row in emission], witness.seen)[state]
            for state in (witness.state, witness.other)
        )
        assert tau < math.log(right / wrong) <= below


def test_uncertain_emissions_show_less() -> None:
    """Wider bounds never show more, and exact ones show it all."""
    exact = least_loss(CHAIN, SKEWED, SKEWED)
    shown = []
    for width in (0.0, 0.001, 0.01, 0.05):
        low, high = (
            tuple(tuple(value + sign * width for value in row) for row in SKEWED) for sign in (-1, 1)
        )
        shown.append(least_loss(CHAIN, low, high))
    assert shown[0] == exact
    assert shown == sorted(shown, reverse=True)
    assert 0.0 < shown[-1] < shown[1] < exact


def test_a_member_is_in_the_class() -> None:
    """The most persistent chain if it is in Θ, one nearer to the middle if the reversal excludes it, or none."""
    low = ((0.5, 0.1, 0.05), (0.2, 0.4, 0.1), (0.0, 0.1, 0.6))
    high = ((0.8, 0.4, 0.3), (0.5, 0.7, 0.4), (0.2, 0.3, 0.9))
    wide = TransitionIntervals(low, high)
    found = most_persistent_chain(CategoricalTheta.of(wide))
    assert found is not None
    assert [found.forward[x][x] for x in range(3)] == pytest.approx([0.8, 0.7, 0.9])
    for row in found.forward:
        assert sum(row) == pytest.approx(1.0, abs=1e-12)
    tight = TransitionIntervals.point(CHAIN.backward)
    nearer = most_persistent_chain(
        CategoricalTheta(
            wide,
            TransitionIntervals(
                tight.low, tuple(tuple(min(1.0, v + 1e-9) for v in row) for row in tight.high)
            ),
        )
    )
    assert nearer is None
    only = most_persistent_chain(CategoricalTheta.of(TransitionIntervals.point(P)))
    assert only is not None
    assert only.forward == pytest.approx(np.array(P), abs=1e-12)
