"""Each tick is used once, whatever the clock does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmq.agent.sources.tick import JUMP_NS, Ticker, tick_at
from tests.agent.clocks import MS, Hands


@pytest.mark.parametrize(("wall_ms", "period_ms", "tick"), [(0, 2, 0), (1, 2, 0), (2, 2, 1), (1999, 500, 3)])
def test_tick_is_the_floor_of_time_over_period(wall_ms: int, period_ms: int, tick: int) -> None:
    assert tick_at(wall_ms * MS, period_ms) == tick


@pytest.mark.parametrize(
    ("watermark", "first"), [(None, 10_001), (9_000, 10_001), (10_000, 10_001), (12_000, 12_001)]
)
def test_the_first_tick_lies_above_watermark_and_present(watermark: int | None, first: int) -> None:
    """The tick in which the agent starts is not used: it may have been used before a crash that left no trace."""
    hands = Hands()
    ticker = Ticker(hands.clock(), 100, watermark)
    hands.run(500_000)
    assert ticker.elapsed().first == first


def test_a_running_tick_is_not_handed_out() -> None:
    hands = Hands()
    ticker = Ticker(hands.clock(), 100, None)
    hands.run(199)
    assert ticker.elapsed().last < ticker.elapsed().first
    hands.run(1)
    assert ticker.elapsed().last == 10_001


def test_a_clock_set_back_returns_no_tick_until_it_has_caught_up_and_is_reported_once() -> None:
    hands = Hands()
    ticker = Ticker(hands.clock(), 100, None)
    hands.run(1_000)
    used = ticker.elapsed().last
    hands.wall_ns -= 60_000 * MS
    said = []
    for _ in range(61):
        hands.run(1_000)
        elapsed = ticker.elapsed()
        said.append(elapsed.clock)
        if elapsed.last >= elapsed.first:
            assert elapsed.first == used + 1
            used = elapsed.last
    assert said.count("back") == 1


def test_a_clock_set_forward_leaves_a_gap() -> None:
    """Ticks that the clock skipped are a gap: no value is invented for them."""
    hands = Hands()
    ticker = Ticker(hands.clock(), 100, None)
    hands.run(1_000)
    ticker.elapsed()
    hands.wall_ns += 3_600_000 * MS
    jumped = ticker.elapsed()
    assert jumped.clock == "forward"
    assert jumped.last < jumped.first
    hands.run(300)
    assert ticker.elapsed().first == jumped.first == (1_001_000 + 3_600_000) // 100


@given(
    st.lists(st.tuples(st.integers(-10_000, 10_000), st.integers(0, 5_000)), max_size=30),
    st.integers(0, 20_000),
)
def test_no_history_of_the_clock_makes_ticks_overlap(moves: list[tuple[int, int]], watermark: int) -> None:
    hands = Hands()
    ticker = Ticker(hands.clock(), 100, watermark)
    highest = max(watermark, 10_000)
    for set_ms, run_ms in moves:
        hands.wall_ns = max(0, hands.wall_ns + set_ms * MS)
        hands.run(run_ms)
        elapsed = ticker.elapsed()
        if elapsed.last >= elapsed.first:
            assert elapsed.first > highest
            assert elapsed.last < tick_at(hands.wall_ns, 100)
            highest = elapsed.last


def test_slewing_is_no_jump() -> None:
    """A clock that gains less than the limit between two calls loses no tick."""
    hands = Hands()
    ticker = Ticker(hands.clock(), 100, None)
    hands.run(1_000)
    hands.wall_ns += JUMP_NS - MS
    assert ticker.elapsed().clock == "steady"
