"""Θ on the wire: what was meant is what is read, and what was proved for the one is proved for the other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hushmq.broker.contract.noise_message import Certificate, Emission, Flips, flips_of
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import BinaryTheta, Entrywise, IntervalTheta, box_of, theta_of
from hushmq.pufferfish.binary.stream_loss import Box
from hushmq.pufferfish.categorical.contraction import certificate_for, certified_loss
from hushmq.pufferfish.categorical.emission import response
from hushmq.pufferfish.categorical.transition_intervals import Class
from tests.agent.activity import FLOOR, START, emission, theta_of_four
from tests.pufferfish.categorical.test_transition_intervals import around, member, random_class

seeds = st.integers(0, 10**6)
probabilities = st.floats(1e-6, 1 - 1e-6)


@given(probabilities, probabilities, probabilities, probabilities)
def test_a_box_goes_round(a: float, b: float, c: float, d: float) -> None:
    """Two states: the four numbers as they were."""
    box = Box(min(a, b), max(a, b), min(c, d), max(c, d))
    told = theta_of(box)
    assert told.k == 2
    assert told.chains == box_of(told) == box
    assert BinaryTheta.model_validate_json(told.model_dump_json()) == told


@settings(deadline=None)
@given(seeds)
def test_a_class_goes_round(seed: int) -> None:
    """More states: both directions as they were, to the last digit; written short, the reversal is found again."""
    forward, _ = random_class(seed)
    assume(forward.k > 2)
    chains = Class.of(forward)
    told = theta_of(chains)
    assert told.k == forward.k
    assert IntervalTheta.model_validate_json(told.model_dump_json()).chains == chains
    assert IntervalTheta(low=forward.low, high=forward.high).chains == chains


@settings(deadline=None, max_examples=30)
@given(seeds)
def test_what_is_proved_for_a_hull_is_proved_for_what_is_told_of_it(seed: int) -> None:
    """A calibrator proves for the hull it holds; a device, which knows what the hull's transitions imply, agrees."""
    forward, rng = random_class(seed)
    assume(forward.k > 2)
    left, right = Class.of(forward), Class.of(around(member(forward, rng), 0.05, rng))
    hull = left.hull(right)
    told = theta_of(hull)
    assert hull.contains(told.chains)
    for part in (left, right):
        assert told.contains(theta_of(part))
        assert told.contains(IntervalTheta(low=part.forward.low, high=part.forward.high))
    try:
        proof = certificate_for(hull, 0.1)
    except ValueError:
        return
    assert certified_loss(told.chains, proof) == proof.loss


@st.composite
def bounds(draw: st.DrawFn, k: int = 3) -> dict[str, list[list[float]]]:
    """Of every kind: zeros, ones, equal, tiny, some that leave no chain."""
    value = st.sampled_from([0.0, 1e-300, 1e-9, 0.25, 1 / 3, 0.5, 1 - 1e-9, 1.0])
    pairs = [[sorted((draw(value), draw(value))) for _ in range(k)] for _ in range(k)]
    return {
        "low": [[one[0] for one in row] for row in pairs],
        "high": [[one[1] for one in row] for row in pairs],
    }


@settings(deadline=None)
@given(bounds(), st.none() | bounds())
def test_any_bounds_are_a_class_or_refused(forward: dict[str, Any], backward: dict[str, Any] | None) -> None:
    """What is taken has a meaning in both directions, so that nobody who reads it meets an error later."""
    try:
        told = IntervalTheta.model_validate_json(json.dumps(forward | {"backward": backward}))
    except ValidationError:
        return
    assert told.contains(told)
    assert theta_of(told.chains).chains == told.chains


def test_directions_that_exclude_each_other_are_refused() -> None:
    """A chain that stays with 0.4 to 0.45 cannot stay with 0.5 backwards."""
    other = theta_of_four((0.5, 0.6), (0.1, 0.2))
    with pytest.raises(ValidationError, match="backward does not go with low and high: entry 0, 0"):
        IntervalTheta(low=FLOOR.low, high=FLOOR.high, backward=Entrywise(low=other.low, high=other.high))


def test_one_class_contains_another_in_both_directions() -> None:
    """By a little too narrow in one entry, of either direction, is too narrow."""
    assert START.contains(FLOOR)
    assert not FLOOR.contains(START)
    backward = FLOOR.chains.backward
    exact = FLOOR.model_copy(update={"backward": Entrywise(low=backward.low, high=backward.high)})
    assert exact.contains(FLOOR)
    assert FLOOR.contains(exact)
    rows = [list(row) for row in backward.high]
    rows[2][1] -= 1e-9
    narrow = Entrywise(low=backward.low, high=tuple(map(tuple, rows)))
    assert not FLOOR.model_copy(update={"backward": narrow}).contains(FLOOR)


def test_two_and_more_states_never_contain_each_other() -> None:
    """And what is for two says so of more."""
    two = theta_of(Box(0.1, 0.9, 0.1, 0.9))
    assert not two.contains(START)
    assert not START.contains(two)
    with pytest.raises(Problem, match="the stream has 4 states, and this is for two"):
        box_of(START)
    with pytest.raises(Problem, match="the stream has 4 states, and this is for two"):
        flips_of(emission(START, 4.0))
    assert flips_of(Flips(rho0=0.2, rho1=0.3)).rho1 == 0.3


def test_a_certificate_goes_round() -> None:
    """To the last digit: a device checks the very numbers."""
    proof = certificate_for(START.chains, 0.3)
    noise = Emission(emission=response(4, 0.3), certificate=Certificate.of(proof))
    again = Emission.model_validate_json(noise.model_dump_json())
    assert again.certificate.proof == proof
    assert again.emission == response(4, 0.3)
