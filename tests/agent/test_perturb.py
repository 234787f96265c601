"""Mechanism perturbs states and packs them into batches."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmq.agent.perturb import LONGEST, Mechanism, runs
from hushmq.broker.contract.messages import Batch, decode
from hushmq.broker.contract.noise_message import BinaryNoiseMessage, CategoricalNoiseMessage
from hushmq.broker.contract.packing import unpack
from hushmq.pufferfish.categorical.emission import randomized_response
from tests.agent.activity import START, activity_noise, emission
from tests.agent.peer import noise


@given(st.integers(0, 1000), st.lists(st.sampled_from([None, 0, 1]), max_size=40))
def test_runs_hold_every_state_at_its_tick_and_nothing_else(first: int, states: list[int | None]) -> None:
    found = {tick + n: state for tick, run in runs(first, states) for n, state in enumerate(run)}
    assert found == {first + n: state for n, state in enumerate(states) if state is not None}


def test_a_run_longer_than_a_batch_is_split() -> None:
    assert [(tick, len(run)) for tick, run in runs(5, [0] * (LONGEST + 3))] == [
        (5, LONGEST),
        (5 + LONGEST, 3),
    ]


def test_batches_chain_over_gaps() -> None:
    """`after` is the last tick before `first`, so that the calibrator knows that nothing is missing."""
    made = Mechanism(noise(4)).batches("motion", 100, [0, 1, None, None, 1, None], after=90)
    batches = [decode(Batch, each.payload) for each in made]
    assert [(batch.first, batch.last, batch.after, batch.noise) for batch in batches] == [
        (100, 101, 90, 4),
        (104, 104, 101, 4),
    ]
    assert [(each.first, each.last) for each in made] == [(100, 101), (104, 104)]


def test_the_noise_is_that_of_the_setting() -> None:
    """Flip frequencies in packed batches are within 6 standard deviations of the truth (2e-9); 30% off is outside."""
    setting, count = noise(1, noise=BinaryNoiseMessage(rho0=0.2, rho1=0.35)), 60_000
    for state, rho in ((0, 0.2), (1, 0.35)):
        flips = 0
        for made in Mechanism(setting).batches("motion", 0, [state] * count, after=None):
            batch = decode(Batch, made.payload)
            flips += sum(z != state for z in unpack(batch.states, batch.count))
        slack = 6 * math.sqrt(count * rho * (1 - rho))
        assert abs(flips - count * rho) < slack < 0.3 * count * rho / 2


SKEWED = ((0.6, 0.2, 0.1, 0.1), (0.15, 0.55, 0.2, 0.1), (0.1, 0.15, 0.5, 0.25), (0.25, 0.1, 0.15, 0.5))


def test_the_noise_of_many_states_is_that_of_the_matrix() -> None:
    """As above for every state and output; the batches have two bits per state."""
    proof = emission(START, 4.0).certificate
    mechanism = Mechanism(
        activity_noise(1, noise=CategoricalNoiseMessage(emission=SKEWED, certificate=proof))
    )
    count = 60_000
    for state, row in enumerate(SKEWED):
        found: Counter[int] = Counter()
        for made in mechanism.batches("motion", 0, [state] * count, after=None):
            batch = decode(Batch, made.payload)
            assert batch.bits == 2
            found.update(unpack(batch.states, batch.count, batch.bits))
        for output, probability in enumerate(row):
            slack = 6 * math.sqrt(count * probability * (1 - probability))
            assert abs(found[output] - count * probability) < slack < 0.3 * count * probability / 2


@pytest.mark.parametrize("k", [3, 4, 5, 8, 9, 51])
def test_batches_of_any_number_of_states_hold_valid_ones(k: int) -> None:
    """Batches use the smallest number of bits, and contain only numbers of states."""
    proof = emission(START, 4.0).certificate
    setting = activity_noise(1).model_copy(
        update={"noise": CategoricalNoiseMessage(emission=randomized_response(k, 2.0), certificate=proof)}
    )
    (made,) = Mechanism(setting).batches("motion", 7, [n % k for n in range(1000)], after=6)
    batch = decode(Batch, made.payload)
    assert 2 ** (batch.bits - 1) < k <= 2**batch.bits
    assert max(unpack(batch.states, batch.count, batch.bits)) < k
