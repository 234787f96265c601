"""From states to batches."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from agent.perturb import LONGEST, Mechanism, runs
from broker.messages import Batch, decode
from broker.noise import Flips
from broker.packing import unpack
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
    """`after` is the last tick made before `first`, so that the other side knows that nothing is missing."""
    made = Mechanism(noise(4)).batches("motion", 100, [0, 1, None, None, 1, None], after=90)
    batches = [decode(Batch, each.payload) for each in made]
    assert [(batch.first, batch.last, batch.after, batch.noise) for batch in batches] == [
        (100, 101, 90, 4),
        (104, 104, 101, 4),
    ]
    assert [(each.first, each.last) for each in made] == [(100, 101), (104, 104)]


def test_the_noise_is_that_of_the_setting() -> None:
    """Frequencies of flips in packed batches: 6 standard deviations hold the truth (2e-9), 30% off is outside."""
    setting, count = noise(1, noise=Flips(rho0=0.2, rho1=0.35)), 60_000
    for state, rho in ((0, 0.2), (1, 0.35)):
        flips = 0
        for made in Mechanism(setting).batches("motion", 0, [state] * count, after=None):
            batch = decode(Batch, made.payload)
            flips += sum(z != state for z in unpack(batch.states, batch.count))
        slack = 6 * math.sqrt(count * rho * (1 - rho))
        assert abs(flips - count * rho) < slack < 0.3 * count * rho / 2
