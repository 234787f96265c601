"""Resampler assigns values to ticks."""

from __future__ import annotations

from hushmq.agent.sources.resample import Resampler
from tests.agent.clocks import Hands

PERIOD = 100


def started(max_age_ms: int = 250) -> tuple[Hands, Resampler]:
    hands = Hands(wall_ns=0)
    return hands, Resampler(hands.clock(), PERIOD, max_age_ms)


def test_the_last_value_before_the_end_of_a_tick_is_its_value() -> None:
    hands, resampler = started()
    resampler.offer(1.0)
    hands.run(99)
    resampler.offer(2.0)
    hands.run(1)
    resampler.offer(3.0)
    assert resampler.take(0, 1) == [2.0, 3.0]


def test_a_value_lasts_for_its_maximum_age_and_then_there_is_a_gap() -> None:
    hands, resampler = started(max_age_ms=250)
    hands.run(60)
    resampler.offer(1.0)
    assert resampler.take(0, 4) == [1.0, 1.0, 1.0, None, None]


def test_without_a_value_there_is_a_gap() -> None:
    _, resampler = started()
    assert resampler.take(5, 7) == [None, None, None]


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


def test_a_clock_set_back_does_not_reset_the_age_of_a_value() -> None:
    """An hour after the clock was set back by an hour, the earlier value is an hour old, whatever the clock shows."""
    hands, resampler = started(max_age_ms=250)
    hands.run(3_600_000)
    resampler.offer(1.0)
    hands.wall_ns -= 3_600_000_000_000
    hands.run(3_600_100)
    assert resampler.take(36_000, 36_000) == [None]


def test_a_clock_set_forward_makes_no_young_value_old() -> None:
    hands, resampler = started(max_age_ms=250)
    resampler.offer(1.0)
    hands.wall_ns += 3_600_000_000_000
    hands.run(100)
    assert resampler.take(36_000, 36_000) == [1.0]


def test_after_a_clock_was_set_back_newer_values_count() -> None:
    """Values recorded for future ticks, before the clock was set back, do not displace later values."""
    hands, resampler = started(max_age_ms=250)
    hands.run(1_000)
    resampler.offer(1.0)
    hands.wall_ns -= 500_000_000
    resampler.offer(2.0)
    hands.run(500)
    assert resampler.take(5, 5) == [2.0]
    assert len(resampler._arrived) == 0
