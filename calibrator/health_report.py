"""How the calibrator is: a snapshot that the loop makes, for `/metrics` and `/health`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hushmq.broker.contract.messages import LedgerState


@dataclass(frozen=True, slots=True)
class Report:
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
    """Devices set aside, with the reason."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Messages refused so far, by reason."""
    refusing: Mapping[str, int] = field(default_factory=dict)
    """Devices that refuse what was pushed, by reason."""
    settings: Mapping[str, int] = field(default_factory=dict)
    """The noise version in force, by stream."""
    behind: Mapping[str, int] = field(default_factory=dict)
    """Devices online that have not applied it, by stream."""
    own: Mapping[str, int] = field(default_factory=dict)
    """Devices with a noise setting of their own, by stream."""
    ledgers: Mapping[str, LedgerState] = field(default_factory=dict)
    stopped: Mapping[str, str] = field(default_factory=dict)
    """Streams of which nothing is released, with the reason."""

    def ill(self) -> list[str]:
        """What is wrong, in words; nothing if all is well."""
        wrong = [] if self.connected else ["not connected to the broker"]
        return wrong + [f"{stream}: {why}" for stream, why in self.stopped.items()]


def metrics(report: Report) -> str:
    """The report in Prometheus's text format."""
    lines: list[str] = []

    def family(name: str, kind: str, samples: Mapping[str, float]) -> None:
        full = f"hushmq_calibrator_{name}{'_total' if kind == 'counter' else ''}"
        lines.append(f"# TYPE {full} {kind}")
        lines.extend(f"{full}{label} {float(value):.15g}" for label, value in samples.items())

    def labelled(key: str, values: Mapping[str, float]) -> dict[str, float]:
        return {f'{{{key}="{name}"}}': value for name, value in values.items()}

    family("connected", "gauge", {"": report.connected})
    family("policy_version", "gauge", {"": report.policy or 0})
    family("inbox_messages", "gauge", {"": report.inbox})
    family("inbox_dropped", "counter", {"": report.dropped})
    family("ticks_counted", "counter", {"": report.ticks_counted})
    family("windows_released", "counter", {"": report.released})
    family("windows_refused", "counter", {"": report.refused})
    family("releases_unsent", "gauge", {"": report.unsent})
    family("devices", "gauge", {"": report.devices})
    family("devices_online", "gauge", {"": report.online})
    family("devices_quarantined", "gauge", {"": len(report.quarantined)})
    family("devices_refusing", "gauge", labelled("reason", report.refusing))
    family("devices_behind", "gauge", labelled("stream", report.behind))
    family("devices_with_own_noise", "gauge", labelled("stream", report.own))
    family("messages_rejected", "counter", labelled("reason", report.rejected))
    family("noise_version", "gauge", labelled("stream", report.settings))
    family(
        "stream_stopped",
        "gauge",
        labelled("stream", {name: name in report.stopped for name in report.ledgers}),
    )
    family(
        "ledger_entries", "gauge", labelled("stream", {n: one.entries for n, one in report.ledgers.items()})
    )
    family("late_ticks", "gauge", labelled("stream", {n: one.late for n, one in report.ledgers.items()}))
    for name in ("loss", "budget"):
        values = {}
        for stream, state in report.ledgers.items():
            for audience, account in (("operator", state.operator), ("public", state.public)):
                values[f'{{stream="{stream}",audience="{audience}"}}'] = getattr(account, name)
        family(name, "gauge", values)
    return "\n".join(lines) + "\n"
