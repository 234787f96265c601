"""The screen of the demo: devices, Θ and noise settings, releases beside the true frequencies, the ledger.

On a small terminal the devices are summarised in one line so that the rest fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hushmq.broker.contract.messages import Account, NoiseSetting, Release, StreamStatus
from hushmq.broker.contract.noise_message import binary_noise_of
from hushmq.broker.contract.theta_message import binary_theta_of
from hushmq.demo.audience import AuditorRecord
from hushmq.demo.demo_plan import STREAM, DemoPlan
from hushmq.demo.verdict import VerdictCheck

WIDTH = 100
RELEASES = 5
DEVICES = 12
"""The largest number of devices listed, one per line."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the demo at one moment."""

    plan: DemoPlan
    record: AuditorRecord
    truth: Mapping[int, float]
    """True frequency of state 1, by ledger entry."""
    elapsed: float
    seconds: float
    broker: str
    restarts: int = 0
    phase: str = ""


def render(
    snapshot: Snapshot, checks: Sequence[VerdictCheck] = (), *, width: int = WIDTH, height: int | None = None
) -> RenderableType:
    """The whole screen for a terminal of this size; without a height its length is not limited."""
    # The devices with frame and heading, two lines per release, the headline, and one spare line.
    whole = min(len(snapshot.plan.wearables), DEVICES + 1) + 2 * RELEASES + 10
    small = width < WIDTH or (height is not None and height < whole)
    width = min(width, WIDTH) - 1
    left = max(40, width // 2)
    beside = Table.grid(padding=(0, 1, 0, 0))
    if small:
        beside.add_row(_noise(snapshot, left), _ledger(snapshot, width - left - 1))
    else:
        beside.add_row(_devices(snapshot, 48), Group(_noise(snapshot, 50), _ledger(snapshot, 50)))
    shown = RELEASES if height is None or not small else max(1, min(RELEASES, (height - 12) // 2))
    parts: list[RenderableType] = [_headline(snapshot), *([_summary(snapshot)] if small else []), beside]
    parts.append(_releases(snapshot, width, shown))
    if checks:
        parts.append(_verdict(checks, width))
    return Group(*parts)


def _headline(snapshot: Snapshot) -> RenderableType:
    line = Table.grid(expand=False, padding=(0, 2))
    title = Text.assemble(
        ("hushmq demo", "bold"), f"  {len(snapshot.plan.wearables)} wearables, {snapshot.broker}"
    )
    clock = f"{min(snapshot.elapsed, snapshot.seconds):4.0f} / {snapshot.seconds:g} s"
    bar = ProgressBar(total=snapshot.seconds, completed=snapshot.elapsed, width=16)
    line.add_row(title, bar, clock, snapshot.phase)
    for column in line.columns:
        column.no_wrap = True
    return line


def _streams(snapshot: Snapshot) -> list[StreamStatus]:
    found = (status.streams.get(STREAM) for status in snapshot.record.statuses.values())
    return [stream for stream in found if stream is not None]


def _sanitized(snapshot: Snapshot) -> str:
    sampled = sum(stream.sampled for stream in _streams(snapshot))
    return f"{sampled:,} samples sanitized" + (f", {snapshot.restarts} restarts" if snapshot.restarts else "")


def _summary(snapshot: Snapshot) -> RenderableType:
    """All devices in one line."""
    streams = _streams(snapshot)
    waiting = sum(stream.buffered for stream in streams)
    versions = Counter("no noise" if stream.noise is None else f"v{stream.noise}" for stream in streams)
    refused = sum(stream.refused is not None for stream in streams)
    words = [f"{_sanitized(snapshot)}, {waiting:,} waiting"]
    words += [f"{version} on {count}" for version, count in sorted(versions.items())]
    words += [f"{refused} refuse"] if refused else []
    return Text("; ".join(words), style="cyan", no_wrap=True, overflow="ellipsis")


def _devices(snapshot: Snapshot, width: int) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("device")
    for name in ("sampled", "waiting", "noise"):
        table.add_column(name, justify="right")
    for wearable in snapshot.plan.wearables[:DEVICES]:
        status = snapshot.record.statuses.get(wearable.name)
        stream = status.streams.get(STREAM) if status else None
        if stream is None:
            table.add_row(wearable.name, "–", "–", "–", style="dim")
            continue
        refused = f" refused: {stream.refused.reason}" if stream.refused else ""
        version = "–" if stream.noise is None else f"v{stream.noise}"
        table.add_row(wearable.name, f"{stream.sampled:,}", f"{stream.buffered:,}", version + refused)
    if len(snapshot.plan.wearables) > DEVICES:
        table.add_row(f"… {len(snapshot.plan.wearables) - DEVICES} more", "", "", "", style="dim")
    return Panel(table, title=_sanitized(snapshot), title_align="left", border_style="cyan", width=width)


def _noise(snapshot: Snapshot, width: int) -> RenderableType:
    table = Table(box=None, padding=(0, 1 if width < 45 else 2, 0, 0))
    for name in ("", "q in", "r in", "ρ0", "ρ1"):
        table.add_column(name, justify="right" if "ρ" in name else "left", no_wrap=True)
    settings = snapshot.record.settings
    cohorts = sorted(version for version, one in settings.items() if one.device is None)
    for version in cohorts if len(cohorts) <= 4 else [cohorts[0], *cohorts[-3:]]:
        table.add_row(f"v{version}", *_setting(settings[version]))
    specific = len({one.device for one in settings.values()} - {None})
    body: list[RenderableType] = [table]
    if specific:
        words = (
            "1 device has a device-specific setting"
            if specific == 1
            else f"{specific} devices have device-specific settings"
        )
        body.append(Text(words, style="dim"))
    return Panel(
        Group(*body) if cohorts else Text("no setting yet: nothing is published", style="dim"),
        title="Θ learned from the noisy stream",
        title_align="left",
        border_style="magenta",
        width=width,
    )


def _setting(setting: NoiseSetting) -> tuple[str, str, str, str]:
    theta, noise = binary_theta_of(setting.theta), binary_noise_of(setting.noise)
    return (
        f"{theta.q_low:.2f}–{theta.q_high:.2f}",
        f"{theta.r_low:.2f}–{theta.r_high:.2f}",
        f"{noise.rho0:.3f}",
        f"{noise.rho1:.3f}",
    )


def _ledger(snapshot: Snapshot, width: int) -> RenderableType:
    ledger = snapshot.record.ledger
    if ledger is None:
        body: RenderableType = Text("nothing charged yet", style="dim")
    else:
        grid = Table.grid(padding=(0, 1))
        for name, account in (("operator", ledger.operator), ("public", ledger.public)):
            grid.add_row(name, _budget(account, width - 33), f"{account.loss:.3f} of ε {account.budget:g}")
        entries = f"{ledger.entries} {'entry' if ledger.entries == 1 else 'entries'}"
        body = Group(grid, Text(f"{entries}, {ledger.adversary} adversary", style="dim"))
    return Panel(body, title="ledger", title_align="left", border_style="yellow", width=width)


def _budget(account: Account, width: int) -> RenderableType:
    over = account.loss > account.budget
    return ProgressBar(
        total=account.budget,
        completed=min(account.loss, account.budget),
        width=max(4, width),
        complete_style="red" if over else "green",
        finished_style="red" if over else "green",
    )


def _releases(snapshot: Snapshot, width: int, shown: int) -> RenderableType:
    name = snapshot.plan.policy.streams[STREAM].states[1]
    if not snapshot.record.releases:
        body: RenderableType = Text("the first window has not closed yet", style="dim")
    else:
        grid = Table.grid(padding=(0, 1))
        for release in snapshot.record.releases[-shown:]:
            _add_release(grid, release, snapshot.truth.get(release.entry), bar=width - 39)
        body = grid
    return Panel(
        body, title=f"releases: share of '{name}'", title_align="left", border_style="green", width=width
    )


def _add_release(grid: Table, release: Release, truth: float | None, *, bar: int) -> None:
    if truth is not None:
        grid.add_row(f"#{release.entry}", "true", _bar(truth, bar, "blue"), f"{truth:.3f}")
    value, error = release.frequencies[1], release.standard_errors[1]
    label = "" if truth is not None else f"#{release.entry}"
    grid.add_row(label, "released", _bar(value, bar, "green"), f"{value:.3f} ± {error:.3f}")


def _bar(share: float, width: int, style: str) -> Text:
    filled = round(min(1.0, max(0.0, share)) * width * 2)
    return Text("━" * (filled // 2) + ("╸" if filled % 2 else ""), style=style)


def _verdict(checks: Sequence[VerdictCheck], width: int) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    for check in checks:
        mark = Text("✓", style="bold green") if check.passed else Text("✗", style="bold red")
        grid.add_row(mark, check.name, Text(check.detail, style="dim" if check.passed else "red"))
    closed = all(check.passed for check in checks)
    return Panel(
        grid,
        title="the loop closed" if closed else "the loop did not close",
        title_align="left",
        border_style="green" if closed else "red",
        width=width,
    )
