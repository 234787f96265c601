"""Every metric and label that the dashboard and the rules name is exported."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from hushmq.agent import device_report as agent_report
from hushmq.broker.contract.messages import LedgerState, decode
from hushmq.calibrator import health_report as calibrator_report

DEPLOY = Path(__file__).parents[2] / "deploy"
STORED = Path(__file__).parents[1] / "broker" / "contract" / "stored" / "v1"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "dashboards" / "hushmq.json").read_text())
RULES: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
ADDED = {"instance", "job"}
"""Labels that Prometheus adds to every metric."""


def exported() -> dict[str, set[str]]:
    """Return every metric that agent and calibrator export, with its labels, from reports without empty fields."""
    stream = agent_report.StreamReport(
        **dict.fromkeys((f.name for f in fields(agent_report.StreamReport)), 1)
    )  # type: ignore[arg-type]
    device = dict.fromkeys((f.name for f in fields(agent_report.Report)), 1)
    ledger = decode(LedgerState, (STORED / "LedgerState.json").read_bytes())
    site: dict[str, Any] = {}
    for each in fields(calibrator_report.HealthReport):
        site[each.name] = {"motion": 1} if "Mapping" in str(each.type) else 1
    site |= {
        "ledgers": {"motion": ledger},
        "stopped": {"motion": "why"},
        "left_out": {"motion": ("wearable-1",)},
    }
    text = agent_report.metrics(agent_report.Report(**device | {"streams": {"motion": stream}}))  # type: ignore[arg-type]
    text += calibrator_report.HealthReport(**site).metrics()
    found: dict[str, set[str]] = defaultdict(set)
    for name, labels in re.findall(r"^(hushmq_\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
        found[name] |= set(re.findall(r"(\w+)=", labels))
    return found


EXPORTED = exported()
TARGETS = [
    pytest.param(target, id=f"{panel['title']} {target['refId']}")
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
]
ALERTS = [pytest.param(rule, id=rule["alert"]) for group in RULES["groups"] for rule in group["rules"]]


def named(expression: str) -> set[str]:
    found = set(re.findall(r"hushmq_\w+", expression))
    assert found, f"{expression} names no metric of ours"
    return found


def check(expression: str, labels: set[str]) -> None:
    unknown = named(expression) - EXPORTED.keys()
    assert not unknown
    for metric in named(expression):
        counter = metric.endswith("_total")
        assert not counter or re.search(rf"(rate|increase)\({metric}\[", expression) or metric == expression
        assert labels <= EXPORTED[metric] | ADDED, metric


@pytest.mark.parametrize("target", TARGETS)
def test_a_panel_shows_what_is_exported(target: dict[str, str]) -> None:
    """Every panel's metrics exist, and so do the labels in its legend."""
    check(target["expr"], set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])))


@pytest.mark.parametrize("rule", ALERTS)
def test_a_rule_watches_what_is_exported(rule: dict[str, Any]) -> None:
    """Every rule's metrics exist, and so do the labels in its text."""
    check(rule["expr"], set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])))


def test_everything_exported_is_on_the_dashboard() -> None:
    """Every metric is on the dashboard, or listed here with a reason."""
    shown = {
        name for panel in DASHBOARD["panels"] for target in panel["targets"] for name in named(target["expr"])
    }
    elsewhere = {
        "hushmq_agent_outbox_bytes",  # waiting ticks are shown instead
        "hushmq_agent_stream_sampled_total",  # counted ticks are shown instead
        "hushmq_agent_stream_counted",  # the calibrator exports it for all devices
    }
    assert EXPORTED.keys() - shown == elsewhere


def test_panels_do_not_overlap() -> None:
    """Every panel has a unique id and does not overlap another, within 24 columns."""
    places: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        taken = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not taken & places
        places |= taken
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_data_source_is_the_one_provisioned() -> None:
    """The dashboard's default source has the uid of the provisioned one; the folder is the one mounted."""
    folder = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text())["datasources"]
    (variable,) = DASHBOARD["templating"]["list"]
    assert variable["current"]["value"] == source["uid"]
    assert all(panel["datasource"]["uid"] == f"${{{variable['name']}}}" for panel in DASHBOARD["panels"])
    (provider,) = yaml.safe_load((folder / "dashboards" / "hushmq.yaml").read_text())["providers"]
    compose = yaml.safe_load((DEPLOY / "container" / "compose.yaml").read_text())
    mounted = [volume.split(":")[1] for volume in compose["services"]["grafana"]["volumes"]]
    assert provider["options"]["path"] in mounted


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (of Prometheus) is not installed")
def test_promtool_finds_nothing_wrong() -> None:
    """Prometheus accepts the configuration and the rules."""
    subprocess.run(["promtool", "check", "config", DEPLOY / "prometheus" / "prometheus.yml"], check=True)
