"""What a fleet takes, from what it is asked for and from unit costs: arithmetic alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hushmq.capacity.stream_load import Daily, StreamLoad, daily
from hushmq.capacity.unit_costs import BrokerCosts, DatabaseCosts, UnitCosts

DAY_S = 86_400.0
YEAR = 365.0
KEPT_WINDOWS = 256
"""Windows of a sequence whose releases an archive leaves in the database."""
COLLECT_S = 0.5
"""How long a calibrator collects messages for one transaction (`collect_s`)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A fleet: so many devices, evenly over so many cohorts, each with the same streams."""

    devices: int
    cohorts: int
    streams: Sequence[StreamLoad]
    beat_ms: int
    broker: str
    database: str


@dataclass(frozen=True, slots=True)
class Capacity:
    """What it takes. Cores are processor seconds in a second, on average."""

    batches_per_s: float
    broker_messages_per_s: float
    """Publications at the broker: batches and what the calibrators answer."""
    wire_bytes_per_day: float
    calibrator_cores: float
    calibrator_cores_of_a_cohort: float
    broker_cores: float
    database_cores: float
    """Of PostgreSQL's server; SQLite is part of the calibrator."""
    commits_per_s: float
    """At most: a calibrator's transactions, each of which waits for the disk."""
    window_close_s: float
    """Processor time to close the largest window of a cohort."""
    shortest_window_s: float
    calibrator_memory_bytes: float
    broker_memory_bytes: float
    rows_per_day: float
    """Rows that stay: entries and releases."""
    entries_per_day: float
    releases_per_day: float
    written_rows_per_day: float
    """Rows written: with batches, which are deleted when their windows have closed."""
    bounded_bytes: float
    """Disk that does not grow: devices, batches that wait, and the newest releases."""
    entry_bytes_per_year: float
    release_bytes_per_year: float
    archived_bytes_per_year: float
    """The same releases in an archive."""

    def as_tree(self) -> dict[str, Any]:
        return asdict(self)


def capacity(wanted: Wanted, costs: UnitCosts) -> Capacity:
    """Add it up. ValueError where the costs do not have that broker or database."""
    broker = _named(costs.brokers, wanted.broker, "broker")
    database = _named(costs.databases, wanted.database, "database")
    day = daily(wanted.streams, devices=wanted.devices, cohorts=wanted.cohorts, beat_ms=wanted.beat_ms)
    batches_s = day.batches / DAY_S
    turns_s = min(wanted.cohorts / COLLECT_S, batches_s)
    calibrator = _calibrator_seconds(day, database) + turns_s * DAY_S * database.turn_s
    release_bytes = database.release_bytes + (day.states_each - 2) * database.release_state_bytes
    published = (2 * day.batches + day.releases) / DAY_S
    kept = sum(
        KEPT_WINDOWS * (wanted.cohorts if scope == "cohort" else wanted.devices)
        for one in wanted.streams
        for window in one.windows.values()
        for scope in window.scopes
    )
    return Capacity(
        batches_per_s=batches_s,
        broker_messages_per_s=published,
        wire_bytes_per_day=day.wire_bytes,
        calibrator_cores=calibrator / DAY_S,
        calibrator_cores_of_a_cohort=calibrator / DAY_S / wanted.cohorts,
        broker_cores=_broker_cores(day, broker),
        database_cores=batches_s * database.server_batch_s
        + turns_s * database.server_turn_s
        + day.releases / DAY_S * database.server_release_s,
        commits_per_s=turns_s,
        window_close_s=_window_seconds(wanted, database),
        shortest_window_s=min(
            (
                window.ticks * one.period_ms / 1000
                for one in wanted.streams
                for window in one.windows.values()
            ),
            default=math.inf,
        ),
        calibrator_memory_bytes=costs.worker_bytes + wanted.devices * costs.device_memory_bytes,
        broker_memory_bytes=wanted.devices * broker.connection_bytes,
        rows_per_day=day.entries + day.releases,
        entries_per_day=day.entries,
        releases_per_day=day.releases,
        written_rows_per_day=day.batches + day.entries + day.releases,
        bounded_bytes=wanted.devices * len(wanted.streams) * database.device_bytes
        + day.held_batches * database.batch_bytes
        + day.held_states
        + kept * release_bytes,
        entry_bytes_per_year=YEAR * day.entries * database.entry_bytes,
        release_bytes_per_year=YEAR * day.releases * release_bytes,
        archived_bytes_per_year=YEAR * day.releases * release_bytes * costs.archived_share,
    )


def _named(found: dict[str, Any], name: str, what: str) -> Any:
    if name not in found:
        raise ValueError(f"{what} {name} was not measured; there is {', '.join(sorted(found)) or 'none'}")
    return found[name]


def _calibrator_seconds(day: Daily, database: DatabaseCosts) -> float:
    return (
        day.batches * database.batch_s
        + day.states * database.state_s
        + day.entries * database.window_s
        + day.window_devices * database.window_device_s
        + day.device_releases * database.release_s
    )


def _broker_cores(day: Daily, broker: BrokerCosts) -> float:
    """A release is one publication, a batch with its answer two."""
    return (day.batches + day.releases / 2) * broker.batch_s / DAY_S


def _window_seconds(wanted: Wanted, database: DatabaseCosts) -> float:
    each = wanted.devices / wanted.cohorts
    scopes = {scope for one in wanted.streams for window in one.windows.values() for scope in window.scopes}
    slowest = {"cohort": database.window_device_s, "device": database.release_s}
    return max((database.window_s + each * slowest[scope] for scope in scopes), default=0.0)
