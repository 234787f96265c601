"""The calibrator's metrics as Prometheus reads them."""

from __future__ import annotations

from hushmq.calibrator.health_report import Report, metrics


def report(ticks: int = 0) -> Report:
    return Report(
        connected=True,
        policy=None,
        inbox=0,
        dropped=0,
        ticks_counted=ticks,
        released=0,
        refused=0,
        unsent=0,
        devices=0,
        online=0,
    )


def test_a_counter_is_told_to_the_last_tick() -> None:
    """Six digits would make a rate of nothing for hours, and then of much: every tick is in the number."""
    assert "hushmq_calibrator_ticks_counted_total 1234567891\n" in metrics(report(1_234_567_891))


def test_every_line_is_a_name_and_a_number() -> None:
    """No unit, no truth value, nothing that Prometheus would stumble over."""
    for line in metrics(report()).splitlines():
        if not line.startswith("#"):
            name, number = line.split()
            assert name.startswith("hushmq_calibrator_")
            float(number)
