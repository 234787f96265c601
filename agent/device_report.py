"""The local report of a device. It holds more than `status`, because it does not leave the device.

How many values were refused, whether the source works, for how long it has been silent and whether the states behave
like Θ depend on the data, so they are reported here, and neither in a topic nor in the metrics, which another machine
may read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StreamReport:
    """One stream: versions in force, and ticks, sampled = counted by the calibrator + buffered + dropped."""

    noise: int | None
    refused: str | None
    sampled: int
    counted: int
    buffered: int
    dropped: int
    watermark: int | None
    source_trouble: str | None
    silent_s: int | None
    """Seconds without a value, once they are more than `silent_after_ms`."""
    values_refused: int
    clock_set: int
    ticks_watched: int
    """Ticks whose states were compared with the Θ in force."""
    outside_theta: str | None
    """Why the states do not behave like Θ, and what follows."""
    repeated_readings: str | None
    """Why neighbouring ticks repeat one reading."""


@dataclass(frozen=True, slots=True)
class Report:
    """One device: its connection, the policy in force, its outbox, and each of its streams."""

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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> Report:
        streams = {name: StreamReport(**each) for name, each in tree["streams"].items()}
        return cls(**{**tree, "streams": streams})


_DEVICE = {
    "connected": ("gauge", "1 while the broker has accepted the device and granted its subscriptions."),
    "policy": ("gauge", "Version of the policy in force, 0 without one."),
    "outbox_bytes": ("gauge", "Bytes that wait in the outbox."),
    "batches_sent": ("counter", "Batches handed to the broker, repeated ones included."),
    "batches_acknowledged": ("counter", "Batches acknowledged by the broker, which does not prove delivery."),
    "ticks_not_stored": ("counter", "Ticks lost because the disk was full; not among the sampled."),
}
_STREAM = {
    "noise": ("gauge", "Version of the noise setting in force, 0 without one: then nothing is published."),
    "sampled": ("counter", "Ticks perturbed and stored; counted + buffered + dropped."),
    "counted": ("gauge", "Ticks that the calibrator has reported as counted."),
    "buffered": ("gauge", "Ticks that wait in the outbox."),
    "dropped": ("gauge", "Ticks dropped; decreases when some turn out to have been counted."),
    "clock_set": ("counter", "How often the clock was set while the stream ran."),
}


METRICS_TYPE = "text/plain; version=0.0.4"
"""The content type of what `metrics` writes."""


def metrics(report: Report) -> str:
    """The report in Prometheus's text format, version 0.0.4."""
    lines: list[str] = []

    def family(name: str, kind: str, help_: str, samples: list[tuple[str, int | None]]) -> None:
        full = f"hushmq_agent_{name}{'_total' if kind == 'counter' else ''}"
        lines.extend((f"# HELP {full} {help_}", f"# TYPE {full} {kind}"))
        lines.extend(f"{full}{label} {int(value or 0)}" for label, value in samples)

    for name, (kind, help_) in _DEVICE.items():
        family(name, kind, help_, [("", getattr(report, name))])
    for name, (kind, help_) in _STREAM.items():
        samples = [(f'{{stream="{stream}"}}', getattr(each, name)) for stream, each in report.streams.items()]
        family(f"stream_{name}", kind, help_, samples)
    return "\n".join(lines) + "\n"


def _silence(stream: StreamReport) -> str | None:
    return (
        None if stream.silent_s is None else f"silent for {stream.silent_s:,} s: its last value is published"
    )


GOOD, BAD, BOLD = "32", "31", "1"


def table(report: Report, *, colour: bool) -> str:
    """The report as text, as `hushmq agent status` prints it on a terminal."""

    def paint(text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colour else text

    def judge(trouble: str | None, well: str) -> str:
        return paint(well, GOOD) if trouble is None else paint(trouble, BAD)

    def version(number: int | None, refused: str | None, without: str) -> str:
        found = paint(without, BAD) if number is None else f"version {number}"
        return found + (paint(f", another one refused: {refused}", BAD) if refused else "")

    broken = None if report.connected else f"not connected: {report.broker_error or 'not yet'}"
    rows = [
        ("", f"{paint(report.device, BOLD)} of cohort {report.cohort}, process {report.pid}"),
        ("broker", judge(broken, "connected")),
        ("policy", version(report.policy, report.policy_refused, "none yet: nothing is sampled")),
        ("outbox", f"{report.outbox_bytes:,} bytes wait"),
        ("batches", f"{report.batches_sent:,} sent, {report.batches_acknowledged:,} acknowledged"),
    ]
    if report.outbox_set_aside is not None:
        rows.append(("", paint(f"a corrupt outbox was set aside: {report.outbox_set_aside}", BAD)))
    if report.ticks_not_stored:
        rows.append(("", paint(f"{report.ticks_not_stored:,} ticks not stored: the disk was full", BAD)))
    for name, each in report.streams.items():
        sums = f"{each.counted:,} counted + {each.buffered:,} buffered + {each.dropped:,} dropped"
        rows += [
            ("", ""),
            ("", paint(name, BOLD)),
            ("noise", version(each.noise, each.refused, "none yet: nothing is published")),
            ("source", judge(each.source_trouble or _silence(each) or each.repeated_readings, "well")),
            ("ticks", f"{each.sampled:,} sampled = {sums}"),
            ("values", f"{each.values_refused:,} refused"),
            ("Θ", judge(each.outside_theta, f"{each.ticks_watched:,} ticks behave like it")),
            ("clock", f"set {each.clock_set:,} times"),
        ]
    return "\n".join(f"{label:<9}{text}" if label else text for label, text in rows)
