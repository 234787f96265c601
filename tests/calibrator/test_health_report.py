"""The calibrator's metrics as Prometheus reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from hushmq.broker.contract.messages import LedgerState, decode
from hushmq.calibrator.health_report import HealthReport

STORED = Path(__file__).parents[1] / "broker" / "contract" / "stored" / "v1"
LEDGER = decode(LedgerState, (STORED / "LedgerState.json").read_bytes())


def report(ticks: int = 0) -> HealthReport:
    return HealthReport(
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
    assert values(report(1_234_567_891))["hushmq_calibrator_ticks_counted_total", ()] == 1_234_567_891


def test_every_line_is_a_name_and_a_number() -> None:
    """No unit, no truth value, nothing that Prometheus would stumble over."""
    for line in report().metrics().splitlines():
        if not line.startswith("#"):
            name, number = line.split()
            assert name.startswith("hushmq_calibrator_")
            float(number)


def test_metrics_are_what_prometheus_reads() -> None:
    """Its own parser finds every number under its name, type and labels, each explained."""
    found = replace(
        report(),
        connected=False,
        policy=3,
        quarantined={"pi-1": "tampered"},
        rejected={"malformed": 2},
        refusing={"stale-version": 1},
        settings={"motion": 7},
        behind={"motion": 4},
        own={"motion": 1},
        ledgers={"motion": LEDGER, "door": LEDGER},
        stopped={"motion": "budget"},
    )
    plain = {name: value for (name, labels), value in values(found).items() if not labels}
    assert plain == {
        "hushmq_calibrator_connected": 0,
        "hushmq_calibrator_waiting": 0,
        "hushmq_calibrator_policy_version": 3,
        "hushmq_calibrator_inbox_messages": 0,
        "hushmq_calibrator_inbox_dropped_total": 0,
        "hushmq_calibrator_ticks_counted_total": 0,
        "hushmq_calibrator_windows_released_total": 0,
        "hushmq_calibrator_windows_refused_total": 0,
        "hushmq_calibrator_releases_unsent": 0,
        "hushmq_calibrator_devices": 0,
        "hushmq_calibrator_devices_online": 0,
        "hushmq_calibrator_devices_quarantined": 1,
    }
    motion, door = (("stream", "motion"),), (("stream", "door"),)
    accounts = {
        (f"hushmq_calibrator_{name}", (("audience", audience), *stream)): getattr(account, name)
        for name in ("loss", "budget")
        for stream in (motion, door)
        for audience, account in (("operator", LEDGER.operator), ("public", LEDGER.public))
    }
    assert {key: value for key, value in values(found).items() if key[1]} == accounts | {
        ("hushmq_calibrator_devices_refusing", (("reason", "stale-version"),)): 1,
        ("hushmq_calibrator_messages_rejected_total", (("reason", "malformed"),)): 2,
        ("hushmq_calibrator_devices_behind", motion): 4,
        ("hushmq_calibrator_devices_with_own_noise", motion): 1,
        ("hushmq_calibrator_noise_version", motion): 7,
        ("hushmq_calibrator_stream_stopped", motion): 1,
        ("hushmq_calibrator_stream_stopped", door): 0,
        ("hushmq_calibrator_ledger_entries", motion): LEDGER.entries,
        ("hushmq_calibrator_ledger_entries", door): LEDGER.entries,
        ("hushmq_calibrator_late_ticks", motion): LEDGER.late,
        ("hushmq_calibrator_late_ticks", door): LEDGER.late,
        ("hushmq_calibrator_epoch", motion): 1,
        ("hushmq_calibrator_epoch", door): 1,
        ("hushmq_calibrator_broken_promises", motion): 0,
        ("hushmq_calibrator_broken_promises", door): 0,
    }


def values(found: HealthReport) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = list(text_string_to_metric_families(found.metrics()))
    assert all(family.documentation for family in families)
    assert all(family.type in {"gauge", "counter"} for family in families)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }
