"""The simulated chain is a pure function of its arguments."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hushmq.agent.sources.simulated_source import SimulatedChain, stationary
from hushmq.agent.sources.source import SimulatedSource
from hushmq.agent.sources.source_config import Simulate, SimulateStates


def test_the_state_at_a_tick_does_not_depend_on_what_was_asked_before() -> None:
    asked_in_order = [SimulatedChain.binary(0.2, 0.3, 7, 100).states(100, 50)[n] for n in range(50)]
    chain = SimulatedChain.binary(0.2, 0.3, 7, 100)
    assert [chain.state(tick) for tick in range(149, 99, -1)][::-1] == asked_in_order
    assert list(chain.states(110, 5) + chain.states(115, 5) + chain.states(130, 3)) == [
        *asked_in_order[10:20],
        *asked_in_order[30:33],
    ]


def test_there_is_no_state_before_the_start() -> None:
    with pytest.raises(ValueError, match="starts at tick 100"):
        SimulatedChain.binary(0.2, 0.3, 7, 100).state(99)


def test_it_moves_with_the_probabilities_given() -> None:
    """Seeded, so the frequencies are fixed; they lie within 5 standard deviations, and 30% off would not."""
    states = SimulatedChain.binary(0.1, 0.3, 1, 0).states(0, 200_000)
    for state, probability in ((0, 0.1), (1, 0.3)):
        places = [n for n in range(len(states) - 1) if states[n] == state]
        moved = sum(states[n + 1] != state for n in places) / len(places)
        assert abs(moved - probability) < 5 * math.sqrt(probability / len(places)) < 0.3 * probability


WALK = ((0.7, 0.2, 0.1, 0.0), (0.1, 0.6, 0.2, 0.1), (0.0, 0.3, 0.6, 0.1), (0.3, 0.0, 0.2, 0.5))


def test_many_states_move_with_the_probabilities_given() -> None:
    """As above for every transition of four states; one of probability 0 never occurs."""
    states = SimulatedChain(WALK, 1, 0).states(0, 200_000)
    places = Counter(states[:-1])
    moved = Counter(pairwise(states))
    for x, row in enumerate(WALK):
        for u, probability in enumerate(row):
            assert abs(moved[x, u] / places[x] - probability) <= 5 * math.sqrt(probability / places[x])
            assert 5 * math.sqrt(probability / places[x]) <= 0.3 * probability


@pytest.mark.slow
@given(st.integers(2, 6), st.data())
def test_a_step_preserves_the_stationary_distribution(k: int, data: st.DataObject) -> None:
    """One step of the chain leaves the stationary distribution unchanged."""
    weights = st.lists(st.integers(1, 9), min_size=k, max_size=k)
    rows = [[w / sum(row) for w in row] for row in data.draw(st.lists(weights, min_size=k, max_size=k))]
    law = stationary(rows)
    assert math.isclose(sum(law), 1)
    for u in range(k):
        assert math.isclose(sum(law[x] * rows[x][u] for x in range(k)), law[u], rel_tol=1e-12)


def test_it_starts_in_the_stationary_distribution() -> None:
    """The start states of many chains with different seeds follow the stationary distribution."""
    law, count = stationary(WALK), 4000
    starts = Counter(SimulatedChain(WALK, seed, 0).state(0) for seed in range(count))
    for state, share in enumerate(law):
        assert abs(starts[state] - share * count) < 5 * math.sqrt(share * count) < 0.3 * share * count


def states_section(**changes: Any) -> SimulateStates:
    fields = {"kind": "simulate-states", "transition": WALK, "values": ("a", "b", 3.0, "d"), "seed": 7}
    return SimulateStates(**(fields | changes))


def test_as_a_source_it_gives_the_value_of_each_state() -> None:
    """The source gives labels or numbers, as configured."""
    numbers = SimulatedChain(WALK, 7, 5).states(5, 50)
    source = SimulatedSource(states_section(start_tick=5))
    assert source.take(5, 54) == [("a", "b", 3.0, "d")[state] for state in numbers]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"transition": ((0.5, 0.5), (0.5, 0.4))}, "row 1 must have 2 probabilities that sum to 1"),
        ({"transition": ((0.5, 0.5), (1.0,))}, "row 1 must have 2 probabilities that sum to 1"),
        (
            {"transition": ((1.0, 0.0), (0.0, 1.0)), "values": (1, 2)},
            "state 1 must lead to a state before it",
        ),
        ({"transition": ((0.5, 0.5), (1.5, -0.5))}, "transition.1.0\n .*less than or equal to 1"),
        ({"values": ("a", "b")}, "there must be 4 values, one for each row"),
    ],
)
def test_an_invalid_chain_is_refused(changes: dict[str, Any], words: str) -> None:
    """The configuration is refused with a reason, before anything runs."""
    with pytest.raises(ValidationError, match=words):
        states_section(**changes)


def test_without_a_start_the_chain_begins_where_it_is_first_asked() -> None:
    """Without start_tick the first values are available at once, however large the first tick is."""
    from hushmq.agent.sources.source import SimulatedSource
    from hushmq.agent.sources.source_config import Simulate

    source = SimulatedSource(Simulate(kind="simulate", q=0.2, r=0.3, seed=1))
    values = source.take(3_600_000_000, 3_600_000_099)
    assert len(values) == 100
    assert set(values) == {0.0, 1.0}


def section(**changes: Any) -> Simulate:
    return Simulate(kind="simulate", q=0.2, r=0.3, seed=7, low=60.0, high=90.0, **changes)


def test_as_a_source_it_gives_its_two_numbers_from_its_start_on() -> None:
    """Before start_tick there are gaps; without start_tick the chain starts at the first requested tick."""
    chain = SimulatedChain.binary(0.2, 0.3, 7, 100)
    numbers = [90.0 if state else 60.0 for state in chain.states(100, 6)]
    source = SimulatedSource(section(start_tick=100))
    assert source.take(98, 97) == []
    assert source.take(98, 102) + source.take(103, 105) == [None, None, *numbers]
    anywhere = SimulatedSource(section())
    assert anywhere.take(10**12, 10**12 + 5) == numbers
