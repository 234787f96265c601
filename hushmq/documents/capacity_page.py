"""The tables of docs/capacity.md, from the published unit costs.

Between a line `<!-- capacity: NAME -->` and a line `<!-- end of capacity -->` the document has the table of that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from hushmq.broker.contract.policy_message import Window
from hushmq.capacity.breaking_points import breaking_points
from hushmq.capacity.capacity_command import size
from hushmq.capacity.capacity_plan import Wanted, capacity
from hushmq.capacity.stream_load import StreamLoad
from hushmq.capacity.unit_costs import UnitCosts, published_costs

PATH = Path("docs/capacity.md")
_ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(
    r"^<!-- capacity: (?P<name>[\w-]+) -->\n(?P<text>.*?)^<!-- end of capacity -->$", re.MULTILINE | re.DOTALL
)
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
IN_A_COHORT = 1_000
QUARTER, DAY = 90, 8_640
"""Ticks of ten seconds."""


def document() -> str:
    """The document with its tables filled in; ValueError where it asks for one that there is not."""
    costs = published_costs()

    def fill(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in TABLES:
            raise ValueError(f"{PATH}: there is no table {name!r}: {', '.join(TABLES)}")
        return f"<!-- capacity: {name} -->\n{TABLES[name](costs)}\n<!-- end of capacity -->"

    return _BLOCK.sub(fill, (_ROOT / PATH).read_text(encoding="utf-8"))


def fleet(devices: int, *, beat_s: int = 10) -> Wanted:
    """A fleet of cohorts of a thousand: a tick every ten seconds, a window of the cohort every quarter of an hour.

    And a release of every device once a day.
    """
    windows = {"quarter": Window(ticks=QUARTER), "day": Window(ticks=DAY, scopes=("device",))}
    stream = StreamLoad("motion", ("still", "moving"), 10_000, 1, windows)
    cohorts = max(1, devices // IN_A_COHORT)
    return Wanted(devices, cohorts, [stream], beat_s * 1000, "nats", "postgresql")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _costs(costs: UnitCosts) -> str:
    rows = []
    for name, one in costs.databases.items():
        rows += [
            [f"calibrator with {name}, a batch", f"{1e6 * one.batch_s:.0f} µs"],
            [f"calibrator with {name}, a transaction of batches", f"{1e3 * one.turn_s:.1f} ms"],
            [f"calibrator with {name}, a window", f"{1e3 * one.window_s:.1f} ms"],
            ["… and for each device that it counts", f"{1e6 * one.window_device_s:.0f} µs"],
            [f"calibrator with {name}, a release of a device", f"{1e6 * one.release_s:.0f} µs"],
        ]
        if one.server_turn_s:
            rows += [
                [f"server of {name}, a transaction of batches", f"{1e3 * one.server_turn_s:.1f} ms"],
                [f"server of {name}, a release", f"{1e6 * one.server_release_s:.0f} µs"],
            ]
        rows += [
            [f"{name}, an entry on disk", size(one.entry_bytes)],
            [f"{name}, a release of two states on disk", size(one.release_bytes)],
            [f"{name}, rows of a device and stream", size(one.device_bytes)],
        ]
    for name, broker in costs.brokers.items():
        rows += [
            [f"{name}, a batch and its `seen`", f"{1e6 * broker.batch_s:.0f} µs"],
            [f"{name}, memory of a connection", size(broker.connection_bytes)],
        ]
    rows += [
        ["memory of a calibrator", size(costs.worker_bytes)],
        ["… and of each device in it", size(costs.device_memory_bytes)],
        ["a release in an archive, of its size in the database", f"{costs.archived_share:.0%}"],
    ]
    return _table(["unit", "cost"], rows) + f"\n\nMeasured {costs.machine.words()}."


def _fleets(costs: UnitCosts) -> str:
    return _sizes(costs, 10)


def _slower(costs: UnitCosts) -> str:
    return _sizes(costs, 300)


def _sizes(costs: UnitCosts, beat_s: int) -> str:
    head = [
        *(
            "devices",
            "messages/s",
            "bytes a day",
            "calibrators",
            "broker",
            "PostgreSQL",
            "memory of the broker",
        ),
        *("disk, bounded", "entries a year", "releases a year", "archived"),
    ]
    rows = []
    for devices in SIZES:
        found = capacity(fleet(devices, beat_s=beat_s), costs)
        rows.append(
            [
                f"{devices:,}",
                f"{found.broker_messages_per_s:,.0f}",
                size(found.wire_bytes_per_day),
                _cores(found.calibrator_cores),
                _cores(found.broker_cores),
                _cores(found.database_cores),
                size(found.broker_memory_bytes),
                size(found.bounded_bytes),
                size(found.entry_bytes_per_year),
                size(found.release_bytes_per_year),
                size(found.archived_bytes_per_year),
            ]
        )
    return _table(head, rows)


def _cores(count: float) -> str:
    return f"{count:.2g} cores" if count < 10 else f"{count:,.0f} cores"


def _breaks(costs: UnitCosts) -> str:
    rows = []
    for devices in SIZES:
        wanted = fleet(devices)
        for place, one in enumerate(breaking_points(wanted, capacity(wanted, costs))[:3]):
            rows.append([f"{devices:,}" if place == 0 else "", one.what, one.units, one.limit, one.then])
    return _table(["devices", "resource", "used", "of", "what then"], rows)


def _growth(costs: UnitCosts) -> str:
    """Rows and bytes of a year, of a cohort and of a device."""
    rows = []
    for words, ticks in (("a quarter of an hour", 90), ("an hour", 360), ("a day", 8_640)):
        windows = 365 * 8_640 / ticks
        for name, one in costs.databases.items():
            rows.append(
                [
                    words,
                    name,
                    f"{windows:,.0f}, {size(windows * one.entry_bytes)}",
                    f"{windows:,.0f}, {size(windows * one.release_bytes)}",
                    size(windows * one.release_bytes * costs.archived_share),
                    size(256 * one.release_bytes),
                ]
            )
    head = [
        *("a window of", "database", "entries: rows, bytes (for each scope)"),
        *(
            "releases: rows, bytes (of the cohort, or of each device)",
            "the same archived",
            "what an archive leaves",
        ),
    ]
    return _table(head, rows)


TABLES: dict[str, Callable[[UnitCosts], str]] = {
    "costs": _costs,
    "fleets": _fleets,
    "slower": _slower,
    "breaks": _breaks,
    "growth": _growth,
}
