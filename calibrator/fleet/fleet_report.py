"""The state of a worker and what it knows of the fleet, for `/metrics` and `/health`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hushmq.calibrator.fleet.cohort_claims import Claims
from hushmq.calibrator.health_report import HealthReport, ReportCollector

UNCLAIMED_S = 30.0
"""A cohort that nobody has claimed for so long is a problem: no worker may or can serve it."""


@dataclass(frozen=True, slots=True)
class FleetReport:
    """What an operator wants to know of a worker."""

    worker: str
    connected: Mapping[str, bool]
    """By cluster whether the worker is connected to it."""
    claims: Claims | None
    cohorts: Mapping[str, HealthReport]
    """The newest report of each cohort that is served."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Cohorts that this worker could not serve, and why."""
    unclaimed: Mapping[str, float] = field(default_factory=dict)
    """Cohorts that nobody serves, and for how many seconds."""

    def problems(self) -> list[str]:
        """What is wrong, in words; an empty list while all is well."""
        wrong = [
            f"not connected to {cluster or 'the broker'}" for cluster, up in self.connected.items() if not up
        ]
        wrong += [f"{cohort}: {why}" for cohort, why in sorted(self.failed.items())]
        wrong += [
            f"{cohort}: no worker has claimed it for {seconds:.0f} s"
            for cohort, seconds in sorted(self.unclaimed.items())
            if seconds >= UNCLAIMED_S
        ]
        return wrong + [
            f"{cohort}: {stream}: {why}"
            for cohort, report in sorted(self.cohorts.items())
            for stream, why in report.stopped.items()
        ]

    def stated(self) -> list[str]:
        """What must be known and cannot be mended: where a promise did not hold."""
        return [
            f"{cohort}: {sentence}"
            for cohort, one in sorted(self.cohorts.items())
            for sentence in one.stated()
        ]

    def metrics(self) -> str:
        """In Prometheus's text format."""
        return generate_latest(_FleetCollector(self)).decode()


class _FleetCollector(Collector):
    """The families of a worker, and those of its cohorts with the label `cohort`."""

    def __init__(self, report: FleetReport) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        report, claims = self._report, self._report.claims
        connected = GaugeMetricFamily(
            "hushmq_worker_connected", "1 while connected to the cluster.", labels=["cluster"]
        )
        for cluster, up in report.connected.items():
            connected.add_metric([cluster], up)
        yield connected
        claimants = {} if claims is None else claims.claimants
        versions = GaugeMetricFamily("hushmq_fleet_workers", "Workers, by version.", labels=["version"])
        peers = [] if claims is None else list(claims.peers.values())
        for version in sorted({one.version for one in peers}):
            versions.add_metric([version], sum(one.version == version for one in peers))
        yield versions
        for name, documentation, number in (
            ("hushmq_worker_cohorts", "Cohorts that this worker serves.", len(report.cohorts)),
            ("hushmq_worker_cohorts_failed", "Cohorts that it could not serve.", len(report.failed)),
            ("hushmq_fleet_cohorts", "Cohorts in the database.", len(claimants)),
            ("hushmq_fleet_cohorts_unclaimed", "Cohorts that nobody serves.", len(report.unclaimed)),
            (
                "hushmq_fleet_longest_unclaimed_seconds",
                "For how long the longest of them.",
                max(report.unclaimed.values(), default=0.0),
            ),
        ):
            yield GaugeMetricFamily(name, documentation, value=number)
        yield from self._of_cohorts()

    def _of_cohorts(self) -> Iterator[Metric]:
        found: dict[str, Metric] = {}
        for cohort, report in self._report.cohorts.items():
            for family in ReportCollector(report).collect():
                same = found.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                same.samples += [
                    one._replace(labels={"cohort": cohort, **one.labels}) for one in family.samples
                ]
        yield from found.values()
