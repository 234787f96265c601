"""The load benchmark runs, small, and its verdict on a step can go both ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hushmq.evaluation.benchmarks.device_load import LoadStep, climb, rows, run, slope

GOOD = LoadStep(
    asked=100, sent=600, seconds=6.0, lost=0, twice=0, p50=0.01, p99=0.1,
    broker_cpu=0.1, client_cpu=0.1, slope=0.0, resident=50.0,
)  # fmt: skip


def test_a_step_is_carried_when_nothing_lags_or_is_lost() -> None:
    """Too little sent, too late, or one message lost: not carried."""
    assert GOOD.carried
    for change in ({"sent": 593}, {"p99": 1.0}, {"lost": 1}):
        assert not replace(GOOD, **change).carried  # type: ignore[arg-type]  # each is a field of Step


def ladder(
    limit: float, *, held: float | None = None, seconds: float = 6.0
) -> Callable[[int, float], LoadStep]:
    """A system that carries up to `limit` messages a second, and up to `held` where that is asked for longer."""

    def step(rate: int, span: float) -> LoadStep:
        most = limit if span <= seconds or held is None else held
        return replace(GOOD, asked=rate, sent=int(min(rate, most) * span), seconds=span)

    return step


def test_the_knee_is_the_highest_rate_that_is_held() -> None:
    """Doubling finds the interval, its middle is tried, and the highest good one is held for four times as long."""
    tried, knee = climb(ladder(800.0), [100, 200, 400, 800, 1600, 3200], 6.0)
    assert [step.asked for step in tried] == [100, 200, 400, 800, 1600, 1200, 800]
    assert knee is not None
    assert (knee.asked, knee.seconds) == (800, 24.0)
    tried, knee = climb(ladder(1300.0), [100, 200, 400, 800, 1600, 3200], 6.0)
    assert knee is not None
    assert knee.asked == 1200


def test_a_rate_that_is_not_held_gives_way_to_a_lower_one() -> None:
    """A burst is not a knee: a rate that fails when it is held is reported as not carried."""
    tried, knee = climb(ladder(800.0, held=250.0), [100, 200, 400, 800, 1600], 6.0)
    assert knee is not None
    assert knee.asked == 200
    told = {row.name: row for row in rows(10, tried, knee, 1000.0)}
    assert told["first rate not carried"].value == 400


def test_no_rate_carried_is_no_knee() -> None:
    """Where even the lowest rate fails, the rows say so instead of naming one."""
    tried, knee = climb(ladder(50.0), [100, 200], 6.0)
    assert knee is None
    told = rows(10, tried, knee, 1000.0)
    assert "no rate was carried" in told[0].name
    assert not any("at the knee" in row.name for row in told)


def test_a_ladder_that_ends_says_that_the_knee_lies_higher() -> None:
    """Nothing failed: the highest rate is claimed, and nothing about higher ones."""
    tried, knee = climb(ladder(1e9), [100, 200], 6.0)
    told = {row.name: row for row in rows(10, tried, knee, 1000.0)}
    assert told["first rate not carried"].against == "the ladder ended: the knee lies higher"


def test_the_slope_of_memory() -> None:
    """The slope of a line is exact; a single point has slope 0."""
    assert slope([(0.0, 10.0), (1.0, 12.0), (2.0, 14.0)]) == pytest.approx(2.0)
    assert slope([(0.0, 10.0)]) == 0.0


@pytest.mark.slow
def test_the_benchmark_runs_with_one_device() -> None:
    """Every row is there; at a trickle nothing is lost."""
    told = {row.name: row for row in run(devices=1, rates=[20], step_s=0.5)}
    assert told["lost, by tick, up to the knee"].value == 0
    assert told["1 devices, TLS, QoS 1: messages/s at the knee"].value > 10
