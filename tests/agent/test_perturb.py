"""Mechanism perturbs states and packs them into batches."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from hushmq.agent.perturb import Mechanism
from hushmq.agent.sources.beat_schedule import LONGEST, BeatSchedule
from hushmq.broker.contract.messages import Batch, decode
from hushmq.broker.contract.noise_message import BinaryNoiseMessage, CategoricalNoiseMessage
from hushmq.broker.contract.packing import unpack
from hushmq.pufferfish.categorical.emission import randomized_response
from tests.agent.activity import START, activity_noise, emission
from tests.agent.peer import noise


def spans(states: int, first: int, **options: Any) -> list[tuple[int, int, int | None, int]]:
    """Return first, last, after and noise version of the batches of so many states."""
    made = Mechanism(noise(4)).batches("motion", first, [0] * states, 90, **options)
    batches = [decode(Batch, each.payload) for each in made]
    assert [(each.first, each.last) for each in made] == [(batch.first, batch.last) for batch in batches]
    return [(batch.first, batch.last, batch.after, batch.noise) for batch in batches]


def test_a_run_longer_than_a_batch_is_split() -> None:
    assert spans(LONGEST + 3, 100) == [
        (100, 99 + LONGEST, 90, 4),
        (100 + LONGEST, 102 + LONGEST, 99 + LONGEST, 4),
    ]
    assert spans(0, 100) == []


def test_batches_are_the_parts_asked_for_and_chain() -> None:
    """`after` is the last tick before `first`, so that the calibrator knows that nothing is missing."""
    parts = BeatSchedule(10).batches(100, 124, 1)
    assert spans(25, 100, parts=parts) == [(100, 109, 90, 4), (110, 119, 109, 4), (120, 124, 119, 4)]


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
