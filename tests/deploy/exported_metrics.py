"""Which metrics our programs export, with their labels, and whether an expression of Prometheus names only those."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import fields
from pathlib import Path
from typing import Any

from hushmq.broker.contract.messages import LedgerState, decode
from hushmq.calibrator.health_report import HealthReport

STORED = Path(__file__).parents[1] / "broker" / "contract" / "stored" / "v1"
ADDED = {"instance", "job"}
"""Labels that Prometheus adds to every metric."""


def full_report() -> HealthReport:
    """A report of a cohort without empty fields."""
    ledger = decode(LedgerState, (STORED / "LedgerState.json").read_bytes())
    site: dict[str, Any] = {}
    for each in fields(HealthReport):
        site[each.name] = {"motion": 1} if "Mapping" in str(each.type) else 1
    site |= {
        "ledgers": {"motion": ledger},
        "stopped": {"motion": "why"},
        "left_out": {"motion": ("wearable-1",)},
    }
    return HealthReport(**site)


def labels_of(text: str) -> dict[str, set[str]]:
    """Every metric of ours in Prometheus's text format, with its labels."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, labels in re.findall(r"^(hushmq_\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
        found[name] |= set(re.findall(r"(\w+)=", labels))
    return found


def named(expression: str) -> set[str]:
    """The metrics that an expression names; there must be one."""
    found = set(re.findall(r"hushmq_\w+", expression))
    assert found, f"{expression} names no metric of ours"
    return found


def check(expression: str, labels: set[str], exported: dict[str, set[str]]) -> None:
    """An expression names what is exported, counters by their rates, and each metric has the labels used in words."""
    assert not named(expression) - exported.keys()
    for metric in named(expression):
        counter = metric.endswith("_total")
        assert not counter or re.search(rf"(rate|increase)\({metric}\[", expression) or metric == expression
        assert labels <= exported[metric] | ADDED, metric


def check_panels(dashboard: dict[str, Any]) -> None:
    """Every panel has an id of its own, reads from the chosen source, and overlaps no other, within 24 columns."""
    places: set[tuple[int, int]] = set()
    (variable,) = dashboard["templating"]["list"]
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        taken = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not taken & places
        assert panel["datasource"]["uid"] == f"${{{variable['name']}}}"
        places |= taken
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def in_legend(target: dict[str, str]) -> set[str]:
    """The labels in the legend of a panel's expression."""
    return set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))


def in_summary(rule: dict[str, Any]) -> set[str]:
    """The labels in the text of an alert."""
    return set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
