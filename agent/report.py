"""What a person on the device may know: more than `status`, for it does not leave the device.

How many values were refused depends on the values themselves, so it is told here and in no topic.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class StreamReport:
    """One stream. `counted` is what the calibrator has said it counted."""

    noise: int | None
    refused: str | None
    sampled: int
    counted: int
    buffered: int
    dropped: int
    watermark: int | None
    source_trouble: str | None
    values_refused: int
    clock_set: int


@dataclass(frozen=True, slots=True)
class Report:
    """The device."""

    device: str
    cohort: str
    pid: int
    connected: bool
    broker_error: str | None
    policy: int | None
    policy_refused: str | None
    outbox_bytes: int
    outbox_set_aside: str | None
    batches_sent: int
    batches_acknowledged: int
    ticks_not_stored: int
    streams: dict[str, StreamReport]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


_DEVICE = {
    "connected": "gauge",
    "policy": "gauge",
    "outbox_bytes": "gauge",
    "batches_sent": "counter",
    "batches_acknowledged": "counter",
    "ticks_not_stored": "counter",
}
_STREAM = {
    "noise": "gauge",
    "sampled": "counter",
    "counted": "gauge",
    "buffered": "gauge",
    "dropped": "gauge",
    "values_refused": "counter",
    "clock_set": "counter",
}


def metrics(report: Report) -> str:
    """The report in Prometheus's text format."""
    lines: list[str] = []

    def family(name: str, kind: str, samples: list[tuple[str, object]]) -> None:
        full = f"hushmq_agent_{name}{'_total' if kind == 'counter' else ''}"
        lines.append(f"# TYPE {full} {kind}")
        lines.extend(f"{full}{label} {int(value or 0)}" for label, value in samples)  # type: ignore[call-overload]

    for name, kind in _DEVICE.items():
        family(name, kind, [("", getattr(report, name))])
    for name, kind in _STREAM.items():
        samples = [(f'{{stream="{stream}"}}', getattr(each, name)) for stream, each in report.streams.items()]
        family(f"stream_{name}", kind, samples)
    return "\n".join(lines) + "\n"


def table(report: dict[str, object]) -> str:
    """The report as `hushmq agent status` prints it."""
    head = {name: value for name, value in report.items() if name != "streams"}
    width = max(map(len, head))
    lines = [f"{name:<{width}}  {'-' if value is None else value}" for name, value in head.items()]
    streams = report["streams"]
    if isinstance(streams, dict):
        for stream, fields in streams.items():
            lines += ["", f"stream {stream}"]
            lines += [
                f"  {name:<{width}}  {'-' if value is None else value}" for name, value in fields.items()
            ]
    return "\n".join(lines)
