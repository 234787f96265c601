"""Every metric and label that the rules of a fleet name is exported by its workers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hushmq.calibrator.fleet.cohort_claims import Claims, Peer
from hushmq.calibrator.fleet.fleet_report import FleetReport
from hushmq.calibrator.health_report import HealthReport

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "fleet-rules.yml").read_text())
REPORT = FleetReport(
    worker="one",
    connected={"north": False},
    claims=Claims({"a": 7, "b": None}, {7: Peer("one", "pool", "1.0")}, 7),
    cohorts={"a": HealthReport.waiting_for("the disk")},
    failed={"c": "no key"},
    unclaimed={"b": 40.0},
)


@pytest.mark.parametrize("rule", RULES["groups"][0]["rules"], ids=lambda rule: rule["alert"])
def test_a_rule_watches_what_is_exported(rule: dict[str, Any]) -> None:
    """Every rule's metrics exist, and so do the labels in its text."""
    lines = re.findall(r"^(hushmq_\w+)(?:\{(.*)\})? ", REPORT.metrics(), re.MULTILINE)
    exported = {name: set(re.findall(r"(\w+)=", labels)) | {"instance"} for name, labels in lines}
    named = set(re.findall(r"hushmq_\w+", rule["expr"]))
    assert named
    assert named <= exported.keys()
    wanted = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert all(wanted <= exported[name] for name in named)


def test_a_cohorts_metrics_carry_its_name() -> None:
    """What a calibrator exports of its cohort, a worker exports for each of its cohorts."""
    assert 'hushmq_calibrator_waiting{cohort="a"} 1.0' in REPORT.metrics()


def test_health_names_what_is_wrong() -> None:
    """A broker that is away, a cohort that fails and one that nobody serves."""
    assert REPORT.problems() == [
        "not connected to north",
        "c: no key",
        "b: no worker has claimed it for 40 s",
    ]
