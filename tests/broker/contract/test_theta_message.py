"""Θ on the wire: it is decoded unchanged, and a loss proved for the original holds for the decoded Θ."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hushmq.broker.contract.noise_message import (
    BinaryNoiseMessage,
    CategoricalNoiseMessage,
    CertificateMessage,
    binary_noise_of,
)
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import (
    BinaryThetaMessage,
    CategoricalThetaMessage,
    TransitionIntervalsMessage,
    binary_theta_of,
    theta_message,
)
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import certificate_for, certified_loss
from hushmq.pufferfish.categorical.emission import randomized_response
from tests.agent.activity import FLOOR, START, emission, theta_of_four
from tests.pufferfish.categorical.test_transition_intervals import around, member, random_class

seeds = st.integers(0, 10**6)
probabilities = st.floats(1e-6, 1 - 1e-6)


@given(probabilities, probabilities, probabilities, probabilities)
def test_a_box_goes_round(a: float, b: float, c: float, d: float) -> None:
    """Two states: the four numbers are decoded unchanged."""
    box = BinaryTheta(min(a, b), max(a, b), min(c, d), max(c, d))
    message = theta_message(box)
    assert message.k == 2
    assert message.chains == binary_theta_of(message) == box
    assert BinaryThetaMessage.model_validate_json(message.model_dump_json()) == message


@pytest.mark.slow
@settings(deadline=None)
@given(seeds)
def test_a_class_goes_round(seed: int) -> None:
    """More states: both directions are decoded exactly; without `backward`, the reversed chain is derived again."""
    forward, _ = random_class(seed)
    assume(forward.k > 2)
    chains = CategoricalTheta.of(forward)
    message = theta_message(chains)
    assert message.k == forward.k
    assert CategoricalThetaMessage.model_validate_json(message.model_dump_json()).chains == chains
    assert CategoricalThetaMessage(low=forward.low, high=forward.high).chains == chains


LARGEST_EPSILON = 20.0


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(seeds)
@example(1540)  # alternating minimisation alone proves this loss for the hull, and not for its part
@example(3736)
def test_a_loss_proved_for_a_hull_holds_for_its_message(seed: int) -> None:
    """A certificate for the calibrator's hull is verified on the device, which also derives implied intervals.

    That is so up to the largest ε of a policy; beyond it rounding may hide a proof.
    """
    forward, rng = random_class(seed)
    assume(forward.k > 2)
    left, right = CategoricalTheta.of(forward), CategoricalTheta.of(around(member(forward, rng), 0.05, rng))
    hull = left.hull(right)
    message = theta_message(hull)
    assert hull.contains(message.chains)
    for part in (left, right):
        assert message.contains(theta_message(part))
        assert message.contains(CategoricalThetaMessage(low=part.forward.low, high=part.forward.high))
    try:
        proof = certificate_for(hull, 0.1)
    except ValueError:
        return
    assume(proof.loss <= LARGEST_EPSILON)
    assert certified_loss(message.chains, proof) == proof.loss


@st.composite
def bounds(draw: st.DrawFn, k: int = 3) -> dict[str, list[list[float]]]:
    """Intervals of every sort: zeros, ones, equal ends, tiny widths, some that contain no chain."""
    value = st.sampled_from([0.0, 1e-300, 1e-9, 0.25, 1 / 3, 0.5, 1 - 1e-9, 1.0])
    pairs = [[sorted((draw(value), draw(value))) for _ in range(k)] for _ in range(k)]
    return {
        "low": [[one[0] for one in row] for row in pairs],
        "high": [[one[1] for one in row] for row in pairs],
    }


@pytest.mark.slow
@settings(deadline=None)
@given(bounds(), st.none() | bounds())
def test_any_bounds_are_a_class_or_refused(forward: dict[str, Any], backward: dict[str, Any] | None) -> None:
    """An accepted Θ is valid in both directions, so that using it never raises an error later."""
    try:
        message = CategoricalThetaMessage.model_validate_json(json.dumps(forward | {"backward": backward}))
    except ValidationError:
        return
    assert message.contains(message)
    assert theta_message(message.chains).chains == message.chains


def test_directions_that_exclude_each_other_are_refused() -> None:
    """A chain that stays with probability 0.4 to 0.45 cannot stay with probability 0.7 when reversed."""
    other = theta_of_four((0.7, 0.8), (0.05, 0.1))
    with pytest.raises(ValidationError, match="backward contradicts low and high: entry 0, 0"):
        CategoricalThetaMessage(
            low=FLOOR.low,
            high=FLOOR.high,
            backward=TransitionIntervalsMessage(low=other.low, high=other.high),
        )


def test_one_class_contains_another_in_both_directions() -> None:
    """A Θ that is slightly too narrow in one entry, of either direction, does not contain the other."""
    assert START.contains(FLOOR)
    assert not FLOOR.contains(START)
    backward = FLOOR.chains.backward
    exact = FLOOR.model_copy(
        update={"backward": TransitionIntervalsMessage(low=backward.low, high=backward.high)}
    )
    assert exact.contains(FLOOR)
    assert FLOOR.contains(exact)
    rows = [list(row) for row in backward.high]
    rows[2][1] -= 1e-9
    narrow = TransitionIntervalsMessage(low=backward.low, high=tuple(map(tuple, rows)))
    assert not FLOOR.model_copy(update={"backward": narrow}).contains(FLOOR)


def test_two_and_more_states_never_contain_each_other() -> None:
    """A function for two states raises Problem for more, and the other way round."""
    two = theta_message(BinaryTheta(0.1, 0.9, 0.1, 0.9))
    assert not two.contains(START)
    assert not START.contains(two)
    with pytest.raises(Problem, match="the stream has 4 states; two are required here"):
        binary_theta_of(START)
    with pytest.raises(Problem, match="the stream has 4 states; two are required here"):
        binary_noise_of(emission(START, 4.0))
    assert binary_noise_of(BinaryNoiseMessage(rho0=0.2, rho1=0.3)).rho1 == 0.3


def test_a_certificate_goes_round() -> None:
    """A certificate is encoded exactly, because a device verifies the very numbers."""
    proof = certificate_for(START.chains, 0.3)
    noise = CategoricalNoiseMessage(
        emission=randomized_response(4, 0.3), certificate=CertificateMessage.of(proof)
    )
    again = CategoricalNoiseMessage.model_validate_json(noise.model_dump_json())
    assert again.certificate.proof == proof
    assert again.emission == randomized_response(4, 0.3)
