"""The load benchmark runs, small, and its verdict on a step can go both ways."""

from __future__ import annotations

from dataclasses import replace

from evaluation.benchmarks.load import Step, run

GOOD = Step(
    asked=100, sent=600, seconds=6.0, lost=0, twice=0, p50=0.01, p99=0.1,
    broker_cpu=0.1, client_cpu=0.1, slope=0.0, resident=50.0,
)  # fmt: skip


def test_a_step_is_carried_when_nothing_lags_or_is_lost() -> None:
    """Too little sent, too late, or one message lost: not carried."""
    assert GOOD.carried
    for change in ({"sent": 593}, {"p99": 1.0}, {"lost": 1}):
        assert not replace(GOOD, **change).carried  # type: ignore[arg-type]  # each is a field of Step


def test_the_benchmark_runs_with_one_device() -> None:
    """Every row is there; at a trickle nothing is lost."""
    rows = {row.name: row for row in run(devices=1, rates=[20], step_s=0.5)}
    assert rows["lost, by tick, up to the knee"].value == 0
    assert rows["1 devices, TLS, QoS 1: messages/s at the knee"].value > 10
