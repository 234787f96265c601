"""Readings that arrive at a slower rate than the ticks."""

from __future__ import annotations

import random

from hushmq.agent.watch.arrival_rate import INTERVALS, ArrivalRate, repeated_reading

PERIOD_MS = 500


def after(intervals_ms: list[float]) -> ArrivalRate:
    rate, now = ArrivalRate(PERIOD_MS), 0
    rate.note(now)
    for interval in intervals_ms:
        now += round(interval * 1e6)
        rate.note(now)
    return rate


def test_even_intervals_are_noticed_after_a_few() -> None:
    assert after([60_000] * (INTERVALS - 1)).every_ms is None
    assert after([60_000] * INTERVALS).every_ms == 60_000
    generator = random.Random(1)
    jittered = after([60_000 + generator.uniform(-5_000, 5_000) for _ in range(INTERVALS)])
    assert jittered.every_ms is not None
    assert 55_000 <= jittered.every_ms <= 65_000


def test_readings_on_change_come_at_uneven_intervals() -> None:
    """Holding the last one is right: nothing is said, however seldom they come."""
    generator = random.Random(1)
    for _ in range(50):
        assert after([1_000 + generator.expovariate(1 / 60_000) for _ in range(INTERVALS)]).every_ms is None


def test_readings_as_fast_as_the_ticks_are_well() -> None:
    assert after([500.0] * 20).every_ms is None
    assert after([1.0] * 20).every_ms is None
    assert after([60_000] * INTERVALS + [400]).every_ms is None


def test_the_remedy_is_said() -> None:
    text = repeated_reading(60_000, PERIOD_MS)
    assert "every 60 s, the period is 0.5 s" in text
    assert "period_ms = 60000" in text
    assert repr(after([60_000] * INTERVALS)) == "ArrivalRate()"
