"""Every metric and label that the rules and the dashboard of a fleet name is exported, and every alarm is explained."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hushmq.calibrator.fleet.cohort_claims import Claims, Peer
from hushmq.calibrator.fleet.fleet_report import FleetReport
from tests.deploy.exported_metrics import (
    check,
    check_panels,
    full_report,
    in_legend,
    in_summary,
    labels_of,
    named,
)

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
RULES: list[dict[str, Any]] = yaml.safe_load((PROMETHEUS / "fleet-rules.yml").read_text())["groups"][0][
    "rules"
]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/dashboards/hushmq-fleet.json").read_text())
REPORT = FleetReport(
    worker="one",
    connected={"north": False},
    claims=Claims({"a": 7, "b": None}, {7: Peer("one", "pool", "1.0")}, 7),
    cohorts={"a": full_report()},
    failed={"c": "no key"},
    unclaimed={"b": 40.0},
)
EXPORTED = labels_of(REPORT.metrics())
TARGETS = [
    pytest.param(target, id=f"{panel['title']} {target['refId']}")
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_watches_what_is_exported(rule: dict[str, Any]) -> None:
    """Every rule's metrics exist, and so do the labels in its text."""
    check(rule["expr"], in_summary(rule), EXPORTED)


@pytest.mark.parametrize("target", TARGETS)
def test_a_panel_shows_what_is_exported(target: dict[str, str]) -> None:
    """Every panel's metrics exist, and so do the labels in its legend."""
    check(target["expr"], in_legend(target), EXPORTED)


def test_everything_about_workers_is_on_the_dashboard() -> None:
    """What only a worker exports is shown; what is about a cohort is on the other dashboard, too."""
    shown = {
        name for panel in DASHBOARD["panels"] for target in panel["targets"] for name in named(target["expr"])
    }
    assert {name for name in EXPORTED if not name.startswith("hushmq_calibrator_")} <= shown
    check_panels(DASHBOARD)


def test_every_alarm_has_a_runbook() -> None:
    """The document has a line for each alarm, and for no other."""
    section = (ROOT / "docs" / "fleet.md").read_text().split("## Alarms")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [rule["alert"] for rule in RULES]


def test_every_alarm_is_tried() -> None:
    """The file of promtool's unit tests has for each alarm a moment at which it fires, and one at which it does not."""
    tried = yaml.safe_load((PROMETHEUS / "fleet-rules.test.yml").read_text())["tests"]
    moments = [one for test in tried for one in test["alert_rule_test"]]
    for rule in RULES:
        mine = [bool(one.get("exp_alerts")) for one in moments if one["alertname"] == rule["alert"]]
        assert set(mine) == {True, False}, rule["alert"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (of Prometheus) is not installed")
def test_every_alarm_fires_when_it_should() -> None:
    """Prometheus's own evaluation of the rules, on series that are written down."""
    subprocess.run(["promtool", "test", "rules", "fleet-rules.test.yml"], cwd=PROMETHEUS, check=True)


def test_a_cohorts_metrics_carry_its_name() -> None:
    """What a calibrator exports of its cohort, a worker exports for each of its cohorts."""
    assert 'hushmq_calibrator_waiting{cohort="a"} 1.0' in REPORT.metrics()
    assert all(
        "cohort" in labels for name, labels in EXPORTED.items() if name.startswith("hushmq_calibrator_")
    )


def test_health_names_what_is_wrong() -> None:
    """A broker that is away, a cohort that fails and one that nobody serves."""
    assert REPORT.problems() == [
        "not connected to north",
        "c: no key",
        "b: no worker has claimed it for 40 s",
        "a: motion: why",
    ]
