"""Each tick is used once, whatever the clock does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmq.agent.sources.beat_schedule import LONGEST, BeatSchedule
from hushmq.agent.sources.tick import JUMP_NS, Ticker, tick_at
from tests.agent.clocks import MS, Hands


@pytest.mark.parametrize(("wall_ms", "period_ms", "tick"), [(0, 2, 0), (1, 2, 0), (2, 2, 1), (1999, 500, 3)])
def test_tick_is_the_floor_of_time_over_period(wall_ms: int, period_ms: int, tick: int) -> None:
    assert tick_at(wall_ms * MS, period_ms) == tick


EACH = BeatSchedule(1)
"""Beats so short that one ends with every tick."""


def ticker(hands: Hands, watermark: int = -1, fill_ticks: int = 0, *, resume: bool = True) -> Ticker:
    return Ticker(hands.clock(), 100, watermark, fill_ticks, resume=resume)


@pytest.mark.parametrize(
    ("watermark", "first"), [(-1, 10_001), (9_000, 10_001), (10_000, 10_001), (12_000, 12_001)]
)
def test_the_first_tick_lies_above_watermark_and_present(watermark: int, first: int) -> None:
    """Without filling, the tick in which the agent starts is not used."""
    hands = Hands()
    found = ticker(hands, watermark)
    hands.run(500_000)
    assert found.elapsed(EACH).first == first


@pytest.mark.parametrize(
    ("watermark", "fill", "first", "missed"),
    [
        (9_990, 10, 9_991, 10),  # the ticks up to the current one, which is the tenth
        (9_990, 9, 10_001, 0),  # one more than is filled: none
        (9_990, 10**6, 9_991, 10),
        (10_000, 10, 10_001, 0),
        (10_005, 10, 10_006, 0),
        (-1, 10**9, 10_001, 0),  # a new stream has missed nothing
    ],
)
def test_an_absence_is_filled_completely_or_not_at_all(
    watermark: int, fill: int, first: int, missed: int
) -> None:
    hands = Hands()
    found = ticker(hands, watermark, fill)
    hands.run(2_000)
    elapsed = found.elapsed(EACH)
    assert (elapsed.first, elapsed.last, elapsed.missed) == (first, 10_019, missed)
    assert found.elapsed(EACH).count == 0


def test_without_resuming_nothing_is_filled() -> None:
    """A setting that was not in force before applies to ticks after the present one."""
    hands = Hands()
    found = ticker(hands, 9_990, 10**6, resume=False)
    hands.run(2_000)
    elapsed = found.elapsed(EACH)
    assert (elapsed.first, elapsed.missed) == (10_001, 0)


def test_a_long_absence_is_returned_in_parts_that_say_so() -> None:
    hands = Hands(wall_ns=10**6 * 100 * MS)
    found = ticker(hands, 10**6 - 3 * LONGEST, 10**6)
    parts = [found.elapsed(EACH) for _ in range(4)]
    assert [part.count for part in parts] == [LONGEST, LONGEST, LONGEST - 1, 0]
    assert [part.behind for part in parts] == [True, True, False, False]
    whole = ticker(hands, 10**6 - 3 * LONGEST, 10**6).elapsed(BeatSchedule(100 * 1_000, 7 * 1_00)).last + 1
    assert whole % 1_000 == 7  # where a batch ends
    hands.run(1_000)
    last = found.elapsed(EACH)
    assert (last.count, last.missed) == (10, 1)


def test_a_running_tick_is_not_handed_out() -> None:
    hands = Hands()
    found = ticker(hands)
    hands.run(199)
    assert found.elapsed(EACH).last < found.elapsed(EACH).first
    hands.run(1)
    assert found.elapsed(EACH).last == 10_001


def test_a_clock_set_back_returns_no_tick_until_it_has_caught_up_and_is_reported_once() -> None:
    hands = Hands()
    found = ticker(hands)
    hands.run(1_000)
    used = found.elapsed(EACH).last
    hands.wall_ns -= 60_000 * MS
    said = []
    for _ in range(61):
        hands.run(1_000)
        elapsed = found.elapsed(EACH)
        said.append(elapsed.clock)
        if elapsed.last >= elapsed.first:
            assert elapsed.first == used + 1
            used = elapsed.last
    assert said.count("back") == 1


@pytest.mark.parametrize(("fill", "filled"), [(36_000, True), (35_999, False), (0, False)])
def test_ticks_that_the_clock_skipped_are_missed_and_filled_up_to_the_limit(fill: int, filled: bool) -> None:
    """No value is invented for them: they are all missed."""
    hands = Hands()
    found = ticker(hands, fill_ticks=fill)
    hands.run(1_000)
    used = found.elapsed(EACH).last
    hands.wall_ns += 3_600_000 * MS
    jumped = found.elapsed(EACH)
    assert jumped.clock == "forward"
    now = tick_at(hands.wall_ns, 100)
    assert (jumped.first, jumped.last) == ((used + 1, now - 1) if filled else (now, now - 1))
    assert jumped.missed == jumped.count
    hands.run(300)
    after = found.elapsed(EACH)
    assert (after.first, after.missed, after.count, after.clock) == (now, 0, 3, "steady")


@given(
    st.lists(st.tuples(st.integers(-10_000, 10_000), st.integers(0, 5_000)), max_size=30),
    st.integers(0, 20_000),
    st.sampled_from([0, 30, 10**6]),
    st.sampled_from([EACH, BeatSchedule(700, 40)]),
)
def test_no_history_of_the_clock_makes_ticks_overlap(
    moves: list[tuple[int, int]], watermark: int, fill: int, schedule: BeatSchedule
) -> None:
    hands = Hands()
    found = ticker(hands, watermark, fill)
    highest = watermark
    for set_ms, run_ms in moves:
        hands.wall_ns = max(0, hands.wall_ns + set_ms * MS)
        hands.run(run_ms)
        elapsed = found.elapsed(schedule)
        if elapsed.last >= elapsed.first:
            assert elapsed.first > highest
            assert elapsed.last < tick_at(hands.wall_ns, 100)
            highest = elapsed.last


def test_slewing_is_no_jump() -> None:
    """A clock that gains less than the limit between two calls loses no tick."""
    hands = Hands()
    found = ticker(hands)
    hands.run(1_000)
    hands.wall_ns += JUMP_NS - MS
    assert found.elapsed(EACH).clock == "steady"
