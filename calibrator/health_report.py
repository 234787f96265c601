"""The state of the calibrator as a snapshot that its loop makes, for `/metrics` and `/health`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hushmq.broker.contract.messages import LedgerState


@dataclass(frozen=True, slots=True)
class HealthReport:
    """What an operator wants to know at a glance."""

    connected: bool
    policy: int | None
    inbox: int
    dropped: int
    ticks_counted: int
    released: int
    refused: int
    unsent: int
    devices: int
    online: int
    quarantined: Mapping[str, str] = field(default_factory=dict)
    """Devices in quarantine, with the reason."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Messages refused so far, by reason."""
    refusing: Mapping[str, int] = field(default_factory=dict)
    """Devices that refuse what was pushed, by reason."""
    settings: Mapping[str, int] = field(default_factory=dict)
    """The noise version in force, by stream."""
    behind: Mapping[str, int] = field(default_factory=dict)
    """Devices not known to be offline that have not applied it, by stream."""
    own: Mapping[str, int] = field(default_factory=dict)
    """Devices with a device-specific noise setting, by stream."""
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Devices that no window counts any more, by stream."""
    filled: Mapping[str, int] = field(default_factory=dict)
    """Ticks that did not arrive and were filled, by stream."""
    ledgers: Mapping[str, LedgerState] = field(default_factory=dict)
    stopped: Mapping[str, str] = field(default_factory=dict)
    """Streams of which nothing is released, with the reason."""
    waiting: str | None = None
    """What the storage said when it went away; None while it is there."""

    @classmethod
    def waiting_for(cls, why: str) -> HealthReport:
        """The report of a calibrator that waits for its storage: it counts and releases nothing."""
        return cls(
            connected=False,
            policy=None,
            inbox=0,
            dropped=0,
            ticks_counted=0,
            released=0,
            refused=0,
            unsent=0,
            devices=0,
            online=0,
            waiting=why,
        )

    def problems(self) -> list[str]:
        """What is wrong, in words; an empty list while all is well."""
        if self.waiting is not None:
            return [f"waiting: {self.waiting}"]
        wrong = [] if self.connected else ["not connected to the broker"]
        return wrong + [f"{stream}: {why}" for stream, why in self.stopped.items()]

    def stated(self) -> list[str]:
        """What must be known and cannot be mended: where a promise did not hold."""
        return [
            f"{stream}: {sentence}"
            for stream, state in self.ledgers.items()
            for sentence in state.broken_promises()
        ]

    def metrics(self) -> str:
        """In Prometheus's text format."""
        return generate_latest(ReportCollector(self)).decode()


PREFIX = "hushmq_calibrator_"
Family = type[GaugeMetricFamily] | type[CounterMetricFamily]
Samples = Iterable[tuple[tuple[str, ...], float]]
"""The samples of a family: the values of its labels, and the number."""


class ReportCollector(Collector):
    """The metric families of one report, for prometheus_client to write."""

    def __init__(self, report: HealthReport) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        """Every family: its type, name, help text, labels and samples."""
        report, gauge, counter = self._report, GaugeMetricFamily, CounterMetricFamily
        ledgers = report.ledgers.items()
        accounts = [
            ((stream, audience), account)
            for stream, state in ledgers
            for audience, account in (("operator", state.operator), ("public", state.public))
        ]
        stopped = {stream: stream in report.stopped for stream in report.ledgers}
        entries = {stream: state.entries for stream, state in ledgers}
        left_out = {stream: len(devices) for stream, devices in report.left_out.items()}
        late = {stream: state.late for stream, state in ledgers}
        epochs = {stream: state.epoch for stream, state in ledgers}
        broken = {stream: len(state.broken_promises()) for stream, state in ledgers}
        losses = [(labels, account.loss) for labels, account in accounts]
        budgets = [(labels, account.budget) for labels, account in accounts]
        families: list[tuple[Family, str, str, str, Samples]] = [
            (gauge, "connected", "1 while connected to the broker.", "", _one(report.connected)),
            (gauge, "waiting", "1 while the storage is away.", "", _one(report.waiting is not None)),
            (gauge, "policy_version", "Version of the policy, 0 without one.", "", _one(report.policy or 0)),
            (gauge, "inbox_messages", "Messages received and not yet handled.", "", _one(report.inbox)),
            (counter, "inbox_dropped", "Messages dropped from a full inbox.", "", _one(report.dropped)),
            (counter, "ticks_counted", "Ticks counted durably.", "", _one(report.ticks_counted)),
            (counter, "ticks_filled", "Ticks filled with a stand-in.", "stream", _by(report.filled)),
            (counter, "windows_released", "Windows released.", "", _one(report.released)),
            (counter, "windows_refused", "Windows refused by the budget.", "", _one(report.refused)),
            (gauge, "releases_unsent", "Releases not acknowledged yet.", "", _one(report.unsent)),
            (gauge, "devices", "Devices known.", "", _one(report.devices)),
            (gauge, "devices_online", "Devices online.", "", _one(report.online)),
            (gauge, "devices_quarantined", "Devices in quarantine.", "", _one(len(report.quarantined))),
            (gauge, "devices_refusing", "Devices that refuse a setting.", "reason", _by(report.refusing)),
            (gauge, "devices_behind", "Devices with an older noise setting.", "stream", _by(report.behind)),
            (gauge, "devices_with_own_noise", "Devices with a specific setting.", "stream", _by(report.own)),
            (gauge, "devices_left_out", "Devices left out of windows.", "stream", _by(left_out)),
            (counter, "messages_rejected", "Messages rejected.", "reason", _by(report.rejected)),
            (gauge, "noise_version", "Version of the noise setting.", "stream", _by(report.settings)),
            (gauge, "stream_stopped", "1 while nothing is released.", "stream", _by(stopped)),
            (gauge, "ledger_entries", "Entries of the ledger.", "stream", _by(entries)),
            (gauge, "late_ticks", "Ticks that came after their window closed.", "stream", _by(late)),
            (gauge, "epoch", "Number of the current epoch.", "stream", _by(epochs)),
            (gauge, "broken_promises", "Promises of ended epochs not kept.", "stream", _by(broken)),
            (gauge, "loss", "Loss so far, in nats.", "stream audience", losses),
            (gauge, "budget", "The budget ε, in nats.", "stream audience", budgets),
        ]
        for type_, name, documentation, labels, samples in families:
            family = type_(f"{PREFIX}{name}", documentation, labels=labels.split())
            for values, number in samples:
                family.add_metric(values, number)
            yield family


def _one(number: float) -> Samples:
    return [((), number)]


def _by(numbers: Mapping[str, float]) -> Samples:
    """The samples of a family with one label."""
    return [((label,), number) for label, number in numbers.items()]
