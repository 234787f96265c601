"""The simulated chain is a pure function of its arguments."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agent.config import Simulate
from agent.simulate import SimulatedChain
from agent.source import SimulatedSource


def test_the_state_at_a_tick_does_not_depend_on_what_was_asked_before() -> None:
    asked_in_order = [SimulatedChain(0.2, 0.3, 7, 100).states(100, 50)[n] for n in range(50)]
    chain = SimulatedChain(0.2, 0.3, 7, 100)
    assert [chain.state(tick) for tick in range(149, 99, -1)][::-1] == asked_in_order
    assert list(chain.states(110, 5) + chain.states(115, 5) + chain.states(130, 3)) == [
        *asked_in_order[10:20],
        *asked_in_order[30:33],
    ]


def test_there_is_no_state_before_the_start() -> None:
    with pytest.raises(ValueError, match="starts at tick 100"):
        SimulatedChain(0.2, 0.3, 7, 100).state(99)


def test_it_moves_with_the_probabilities_given() -> None:
    """Seeded, so the frequencies are fixed; they lie within 5 standard deviations, and 30% off would not."""
    states = SimulatedChain(0.1, 0.3, 1, 0).states(0, 200_000)
    for state, probability in ((0, 0.1), (1, 0.3)):
        places = [n for n in range(len(states) - 1) if states[n] == state]
        moved = sum(states[n + 1] != state for n in places) / len(places)
        assert abs(moved - probability) < 5 * math.sqrt(probability / len(places)) < 0.3 * probability


def test_without_a_start_the_chain_begins_where_it_is_first_asked() -> None:
    """A simulation with no start_tick answers at once, however late in history its first tick is."""
    from agent.config import Simulate
    from agent.source import SimulatedSource

    source = SimulatedSource(Simulate(kind="simulate", q=0.2, r=0.3, seed=1))
    values = source.take(3_600_000_000, 3_600_000_099)
    assert len(values) == 100
    assert set(values) == {0.0, 1.0}


def section(**changes: Any) -> Simulate:
    return Simulate(kind="simulate", q=0.2, r=0.3, seed=7, low=60.0, high=90.0, **changes)


def test_as_a_source_it_gives_its_two_numbers_from_its_start_on() -> None:
    """Before the start there are gaps; without a start the first tick asked for is it."""
    chain = SimulatedChain(0.2, 0.3, 7, 100)
    numbers = [90.0 if state else 60.0 for state in chain.states(100, 6)]
    source = SimulatedSource(section(start_tick=100))
    assert source.take(98, 97) == []
    assert source.take(98, 102) + source.take(103, 105) == [None, None, *numbers]
    anywhere = SimulatedSource(section())
    assert anywhere.take(10**12, 10**12 + 5) == numbers
