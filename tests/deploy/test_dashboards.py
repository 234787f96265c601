"""Every metric and label that the dashboard and the rules name is exported."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from hushmq.agent import device_report as agent_report
from tests.deploy.exported_metrics import (
    check,
    check_panels,
    full_report,
    in_legend,
    in_summary,
    labels_of,
    named,
)

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "dashboards" / "hushmq.json").read_text())
RULES: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())


def exported() -> dict[str, set[str]]:
    """Every metric that agent and calibrator export, with its labels, from reports without empty fields."""
    stream = agent_report.StreamReport(
        **dict.fromkeys((f.name for f in fields(agent_report.StreamReport)), 1)
    )  # type: ignore[arg-type]
    device = dict.fromkeys((f.name for f in fields(agent_report.Report)), 1)
    text = agent_report.metrics(agent_report.Report(**device | {"streams": {"motion": stream}}))  # type: ignore[arg-type]
    return labels_of(text + full_report().metrics())


EXPORTED = exported()
TARGETS = [
    pytest.param(target, id=f"{panel['title']} {target['refId']}")
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
]
ALERTS = [pytest.param(rule, id=rule["alert"]) for group in RULES["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("target", TARGETS)
def test_a_panel_shows_what_is_exported(target: dict[str, str]) -> None:
    """Every panel's metrics exist, and so do the labels in its legend."""
    check(target["expr"], in_legend(target), EXPORTED)


@pytest.mark.parametrize("rule", ALERTS)
def test_a_rule_watches_what_is_exported(rule: dict[str, Any]) -> None:
    """Every rule's metrics exist, and so do the labels in its text."""
    check(rule["expr"], in_summary(rule), EXPORTED)


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
    check_panels(DASHBOARD)


def test_the_data_source_is_the_one_provisioned() -> None:
    """The dashboard's default source has the uid of the provisioned one; the folder is the one mounted."""
    folder = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text())["datasources"]
    (variable,) = DASHBOARD["templating"]["list"]
    assert variable["current"]["value"] == source["uid"]
    (provider,) = yaml.safe_load((folder / "dashboards" / "hushmq.yaml").read_text())["providers"]
    compose = yaml.safe_load((DEPLOY / "container" / "compose.yaml").read_text())
    mounted = [volume.split(":")[1] for volume in compose["services"]["grafana"]["volumes"]]
    assert provider["options"]["path"] in mounted


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (of Prometheus) is not installed")
def test_promtool_finds_nothing_wrong() -> None:
    """Prometheus accepts the configuration and the rules."""
    subprocess.run(["promtool", "check", "config", DEPLOY / "prometheus" / "prometheus.yml"], check=True)
