"""Resampler assigns values to ticks."""

from __future__ import annotations

from hushmq.agent.sources.resample import Resampler
from tests.agent.clocks import Hands

PERIOD = 100


def started(silent_after_ms: int | None = None) -> tuple[Hands, Resampler]:
    hands = Hands(wall_ns=0)
    return hands, Resampler(hands.clock(), PERIOD, silent_after_ms)


def test_the_last_value_before_the_end_of_a_tick_is_its_value() -> None:
    hands, resampler = started()
    resampler.offer(1.0)
    hands.run(99)
    resampler.offer(2.0)
    hands.run(1)
    resampler.offer(3.0)
    assert resampler.take(0, 1) == [2.0, 3.0]


def test_the_last_value_is_held_without_limit() -> None:
    """A door sensor that reports on change has a value at every tick, a year later, too."""
    hands, resampler = started()
    hands.run(60)
    resampler.offer(1.0)
    assert resampler.take(0, 4) == [1.0] * 5
    hands.run(365 * 86_400_000)
    assert resampler.take(315_360_000, 315_360_002) == [1.0] * 3


def test_before_the_first_value_none_is_known() -> None:
    _, resampler = started()
    assert resampler.take(5, 7) == [None, None, None]


def test_silence_is_reported_once_it_is_long_enough_and_ends_with_a_value() -> None:
    """It is measured by the monotonic clock: setting the wall clock makes no silence."""
    hands, resampler = started(silent_after_ms=5_000)
    hands.wall_ns += 10**15
    hands.run(4_999)
    assert resampler.silent_s is None
    hands.run(2_001)
    assert resampler.silent_s == 7
    resampler.offer(1.0)
    assert resampler.silent_s is None
    hands.run(10**9)
    assert started()[1].silent_s is None


def test_a_value_of_a_later_tick_is_not_used_early() -> None:
    hands, resampler = started()
    hands.run(250)
    resampler.offer(1.0)
    assert resampler.take(0, 1) == [None, None]
    assert resampler.take(2, 2) == [1.0]


def test_a_fast_source_holds_one_value_per_tick() -> None:
    """However many values arrive, memory is bounded by ticks."""
    hands, resampler = started()
    for number in range(10_000):
        resampler.offer(number)
        hands.wall_ns += 10_000
    assert len(resampler._arrived) == 1


def test_a_clock_set_forward_loses_no_value() -> None:
    hands, resampler = started()
    resampler.offer(1.0)
    hands.wall_ns += 3_600_000_000_000
    hands.run(100)
    assert resampler.take(36_000, 36_000) == [1.0]


def test_after_a_clock_was_set_back_newer_values_count() -> None:
    """Values recorded for future ticks, before the clock was set back, do not displace later values."""
    hands, resampler = started()
    hands.run(1_000)
    resampler.offer(1.0)
    hands.wall_ns -= 500_000_000
    resampler.offer(2.0)
    hands.run(500)
    assert resampler.take(5, 5) == [2.0]
    assert len(resampler._arrived) == 0
