"""What breaks first: how much of its limit each resource uses, and what to do when it is used up."""

from __future__ import annotations

from dataclasses import dataclass

from hushmq.capacity.capacity_plan import Capacity, Wanted

BUSY = 0.6
"""The share of a core that is planned with: the rest is for backlogs, theta updates and other programs."""
BROKER_CORES = {"nats": 4.0, "mosquitto": 1.0}
"""Cores that one broker process is planned with; Mosquitto has one thread."""
CONNECTIONS = 100_000
"""Connections to one broker that are planned with: each is a file and a session."""
COMMITS = 500.0
"""Transactions a second that wait for one disk: solid-state disks with a protected cache make more, others far less."""
DATABASE_CORES = 16.0
DISK_BYTES = 1e12
"""A terabyte of a table, beyond which backups and restores take hours."""
MEMORY_BYTES = 16e9


@dataclass(frozen=True, slots=True)
class BreakingPoint:
    """A resource: how much of its limit is used, and what then."""

    what: str
    used: float
    """1: all of it."""
    limit: str
    then: str

    @property
    def units(self) -> str:
        return f"{self.used:.0%}" if self.used < 10 else f"{self.used:,.0f} times"


def breaking_points(wanted: Wanted, found: Capacity) -> list[BreakingPoint]:
    """Every resource, the one that breaks first before all others."""
    each = wanted.devices / wanted.cohorts
    points = [
        BreakingPoint(
            "one calibrator process, of one cohort",
            found.calibrator_cores_of_a_cohort / BUSY,
            f"{BUSY:.0%} of a core: a cohort has one writer",
            "smaller cohorts, a longer beat or a larger stride",
        ),
        BreakingPoint(
            "closing a window of a cohort",
            found.window_close_s / (BUSY * found.shortest_window_s),
            f"{BUSY:.0%} of the shortest window",
            "smaller cohorts, longer windows, or device windows, which devices make themselves",
        ),
        BreakingPoint(
            f"one broker ({wanted.broker}), processor",
            found.broker_cores / (BUSY * BROKER_CORES[wanted.broker]),
            f"{BUSY:.0%} of {BROKER_CORES[wanted.broker]:g} cores",
            "a cluster of NATS, then several clusters, each with its cohorts (docs/fleet.md)",
        ),
        BreakingPoint(
            f"one broker ({wanted.broker}), connections",
            wanted.devices / CONNECTIONS,
            f"{CONNECTIONS:,} connections, {found.broker_memory_bytes / max(1, wanted.devices) / 1e3:.0f} kB each",
            "more nodes; several clusters, each with its cohorts",
        ),
        BreakingPoint(
            "one disk, transactions",
            found.commits_per_s / COMMITS,
            f"{COMMITS:g} durable transactions a second",
            "a larger collect_s; several databases, each with its cohorts",
        ),
        BreakingPoint(
            "one disk, releases of a year",
            found.release_bytes_per_year / DISK_BYTES,
            "1 TB",
            "hushmq ledger archive --keep-days; windows of the cohort instead of one release for each device",
        ),
        BreakingPoint(
            "one disk, entries of a year",
            found.entry_bytes_per_year / DISK_BYTES,
            "1 TB",
            "several databases, each with its cohorts",
        ),
        BreakingPoint(
            "memory of one calibrator, of one cohort",
            each * found.calibrator_memory_bytes / wanted.devices / MEMORY_BYTES,
            f"{MEMORY_BYTES / 1e9:g} GB",
            "smaller cohorts",
        ),
    ]
    if found.database_cores:
        points.append(
            BreakingPoint(
                "one server of PostgreSQL, processor",
                found.database_cores / (BUSY * DATABASE_CORES),
                f"{BUSY:.0%} of {DATABASE_CORES:g} cores",
                "several databases, each with its cohorts",
            )
        )
    return sorted(points, key=lambda one: -one.used)
