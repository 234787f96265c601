"""What the demo shows: the devices, Θ and the noise following it, releases against the truth, the ledger.

On a small terminal the devices become one line, so that everything else stays in sight.
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
from hushmq.broker.contract.noise_message import flips_of
from hushmq.broker.contract.theta_message import box_of
from hushmq.demo.audience import Record
from hushmq.demo.demo_plan import STREAM, Plan
from hushmq.demo.verdict import Check

WIDTH = 100
RELEASES = 5
DEVICES = 12
"""The most that are shown, each in a line of its own."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known at one moment of the demo."""

    plan: Plan
    record: Record
    truth: Mapping[int, float]
    """True frequency of state 1, by ledger entry."""
    elapsed: float
    seconds: float
    broker: str
    restarts: int = 0
    stage: str = ""


def render(
    moment: Moment, checks: Sequence[Check] = (), *, width: int = WIDTH, height: int | None = None
) -> RenderableType:
    """The whole screen, for a terminal of that size; without a height it may be as long as it likes."""
    # A frame and a heading around the devices, two lines a release, the headline, and one to spare.
    whole = min(len(moment.plan.wearables), DEVICES + 1) + 2 * RELEASES + 10
    small = width < WIDTH or (height is not None and height < whole)
    width = min(width, WIDTH) - 1
    left = max(40, width // 2)
    beside = Table.grid(padding=(0, 1, 0, 0))
    if small:
        beside.add_row(_noise(moment, left), _ledger(moment, width - left - 1))
    else:
        beside.add_row(_devices(moment, 48), Group(_noise(moment, 50), _ledger(moment, 50)))
    shown = RELEASES if height is None or not small else max(1, min(RELEASES, (height - 12) // 2))
    parts: list[RenderableType] = [_headline(moment), *([_summary(moment)] if small else []), beside]
    parts.append(_releases(moment, width, shown))
    if checks:
        parts.append(_verdict(checks, width))
    return Group(*parts)


def _headline(moment: Moment) -> RenderableType:
    line = Table.grid(expand=False, padding=(0, 2))
    title = Text.assemble(
        ("hushmq demo", "bold"), f"  {len(moment.plan.wearables)} wearables, {moment.broker}"
    )
    clock = f"{min(moment.elapsed, moment.seconds):4.0f} / {moment.seconds:g} s"
    bar = ProgressBar(total=moment.seconds, completed=moment.elapsed, width=16)
    line.add_row(title, bar, clock, moment.stage)
    for column in line.columns:
        column.no_wrap = True
    return line


def _streams(moment: Moment) -> list[StreamStatus]:
    found = (status.streams.get(STREAM) for status in moment.record.statuses.values())
    return [stream for stream in found if stream is not None]


def _sanitized(moment: Moment) -> str:
    sampled = sum(stream.sampled for stream in _streams(moment))
    return f"{sampled:,} samples sanitized" + (f", {moment.restarts} restarts" if moment.restarts else "")


def _summary(moment: Moment) -> RenderableType:
    """All devices in one line."""
    streams = _streams(moment)
    waiting = sum(stream.buffered for stream in streams)
    versions = Counter("no noise" if stream.noise is None else f"v{stream.noise}" for stream in streams)
    refused = sum(stream.refused is not None for stream in streams)
    words = [f"{_sanitized(moment)}, {waiting:,} waiting"]
    words += [f"{version} on {count}" for version, count in sorted(versions.items())]
    words += [f"{refused} refuse"] if refused else []
    return Text("; ".join(words), style="cyan", no_wrap=True, overflow="ellipsis")


def _devices(moment: Moment, width: int) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("device")
    for name in ("sampled", "waiting", "noise"):
        table.add_column(name, justify="right")
    for wearable in moment.plan.wearables[:DEVICES]:
        status = moment.record.statuses.get(wearable.name)
        stream = status.streams.get(STREAM) if status else None
        if stream is None:
            table.add_row(wearable.name, "–", "–", "–", style="dim")
            continue
        refused = f" refused: {stream.refused.reason}" if stream.refused else ""
        version = "–" if stream.noise is None else f"v{stream.noise}"
        table.add_row(wearable.name, f"{stream.sampled:,}", f"{stream.buffered:,}", version + refused)
    if len(moment.plan.wearables) > DEVICES:
        table.add_row(f"… {len(moment.plan.wearables) - DEVICES} more", "", "", "", style="dim")
    return Panel(table, title=_sanitized(moment), title_align="left", border_style="cyan", width=width)


def _noise(moment: Moment, width: int) -> RenderableType:
    table = Table(box=None, padding=(0, 1 if width < 45 else 2, 0, 0))
    for name in ("", "q in", "r in", "ρ0", "ρ1"):
        table.add_column(name, justify="right" if "ρ" in name else "left", no_wrap=True)
    settings = moment.record.settings
    cohorts = sorted(version for version, one in settings.items() if one.device is None)
    for version in cohorts if len(cohorts) <= 4 else [cohorts[0], *cohorts[-3:]]:
        table.add_row(f"v{version}", *_setting(settings[version]))
    own = len({one.device for one in settings.values()} - {None})
    body: list[RenderableType] = [table]
    if own:
        words = (
            "1 device has a setting of its own" if own == 1 else f"{own} devices have settings of their own"
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
    theta, noise = box_of(setting.theta), flips_of(setting.noise)
    return (
        f"{theta.q_low:.2f}–{theta.q_high:.2f}",
        f"{theta.r_low:.2f}–{theta.r_high:.2f}",
        f"{noise.rho0:.3f}",
        f"{noise.rho1:.3f}",
    )


def _ledger(moment: Moment, width: int) -> RenderableType:
    ledger = moment.record.ledger
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


def _releases(moment: Moment, width: int, shown: int) -> RenderableType:
    name = moment.plan.policy.streams[STREAM].states[1]
    if not moment.record.releases:
        body: RenderableType = Text("the first window has not closed yet", style="dim")
    else:
        grid = Table.grid(padding=(0, 1))
        for release in moment.record.releases[-shown:]:
            _add_release(grid, release, moment.truth.get(release.entry), bar=width - 39)
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


def _verdict(checks: Sequence[Check], width: int) -> RenderableType:
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
