"""What the demo shows: the devices, Θ and the noise following it, releases against the truth, the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from broker.messages import Account, NoiseSetting, Release
from hushmq.demo.audience import Record
from hushmq.demo.plan import STREAM, Plan
from hushmq.demo.verdict import Check

WIDTH = 100
BAR = 60


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


def render(moment: Moment, checks: Sequence[Check] = ()) -> RenderableType:
    """The whole screen."""
    parts: list[RenderableType] = [
        _headline(moment),
        Columns([_devices(moment), Group(_noise(moment), _ledger(moment))], padding=(0, 1)),
        _releases(moment),
    ]
    if checks:
        parts.append(_verdict(checks))
    return Group(*parts)


def _headline(moment: Moment) -> RenderableType:
    line = Table.grid(expand=False, padding=(0, 2))
    title = Text.assemble(
        ("hushmq demo", "bold"), f"  {len(moment.plan.wearables)} wearables, {moment.broker}"
    )
    clock = f"{min(moment.elapsed, moment.seconds):4.0f} / {moment.seconds:g} s"
    line.add_row(
        title, ProgressBar(total=moment.seconds, completed=moment.elapsed, width=20), clock, moment.stage
    )
    return line


def _devices(moment: Moment) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("device")
    for name in ("sampled", "waiting", "noise"):
        table.add_column(name, justify="right")
    for wearable in moment.plan.wearables[:12]:
        status = moment.record.statuses.get(wearable.name)
        stream = status.streams.get(STREAM) if status else None
        if stream is None:
            table.add_row(wearable.name, "–", "–", "–", style="dim")
            continue
        refused = f" refused: {stream.refused.reason}" if stream.refused else ""
        version = "–" if stream.noise is None else f"v{stream.noise}"
        table.add_row(wearable.name, f"{stream.sampled:,}", f"{stream.buffered:,}", version + refused)
    if len(moment.plan.wearables) > 12:
        table.add_row(f"… {len(moment.plan.wearables) - 12} more", "", "", "", style="dim")
    sampled = sum(
        status.streams[STREAM].sampled
        for status in moment.record.statuses.values()
        if STREAM in status.streams
    )
    title = f"{sampled:,} samples sanitized" + (f", {moment.restarts} restarts" if moment.restarts else "")
    return Panel(table, title=title, title_align="left", border_style="cyan", width=48)


def _noise(moment: Moment) -> RenderableType:
    table = Table(box=None, padding=(0, 1))
    for name in ("noise", "q in", "r in", "ρ0", "ρ1"):
        table.add_column(name, justify="right" if name[0] == "ρ" else "left")
    versions = sorted(moment.record.settings)
    for version in versions if len(versions) <= 4 else [versions[0], *versions[-3:]]:
        table.add_row(f"v{version}", *_setting(moment.record.settings[version]))
    return Panel(
        table if versions else Text("no setting yet: nothing is published", style="dim"),
        title="Θ learned from the noisy stream",
        title_align="left",
        border_style="magenta",
        width=50,
    )


def _setting(setting: NoiseSetting) -> tuple[str, str, str, str]:
    q, r = setting.theta.q, setting.theta.r
    return (
        f"{q.low:.2f}–{q.high:.2f}",
        f"{r.low:.2f}–{r.high:.2f}",
        f"{setting.rho0:.3f}",
        f"{setting.rho1:.3f}",
    )


def _ledger(moment: Moment) -> RenderableType:
    ledger = moment.record.ledger
    if ledger is None:
        body: RenderableType = Text("nothing charged yet", style="dim")
    else:
        grid = Table.grid(padding=(0, 1))
        for name, account in (("operator", ledger.operator), ("public", ledger.public)):
            grid.add_row(name, _budget(account), f"{account.loss:.3f} of ε {account.budget:g}")
        body = Group(grid, Text(f"{ledger.entries} entries, {ledger.adversary} adversary", style="dim"))
    return Panel(body, title="ledger", title_align="left", border_style="yellow", width=50)


def _budget(account: Account) -> RenderableType:
    over = account.loss > account.budget
    return ProgressBar(
        total=account.budget,
        completed=min(account.loss, account.budget),
        width=18,
        complete_style="red" if over else "green",
        finished_style="red" if over else "green",
    )


def _releases(moment: Moment) -> RenderableType:
    name = moment.plan.policy.streams[STREAM].states[1]
    if not moment.record.releases:
        body: RenderableType = Text("the first window has not closed yet", style="dim")
    else:
        grid = Table.grid(padding=(0, 1))
        for release in moment.record.releases[-5:]:
            _add_release(grid, release, moment.truth.get(release.entry))
        body = grid
    return Panel(
        body, title=f"releases: share of '{name}'", title_align="left", border_style="green", width=WIDTH - 1
    )


def _add_release(grid: Table, release: Release, truth: float | None) -> None:
    if truth is not None:
        grid.add_row(f"#{release.entry}", "true", _bar(truth, "blue"), f"{truth:.3f}")
    value, error = release.frequencies[1], release.standard_errors[1]
    label = "" if truth is not None else f"#{release.entry}"
    grid.add_row(label, "released", _bar(value, "green"), f"{value:.3f} ± {error:.3f}")


def _bar(share: float, style: str) -> Text:
    filled = round(min(1.0, max(0.0, share)) * BAR * 2)
    return Text("━" * (filled // 2) + ("╸" if filled % 2 else ""), style=style)


def _verdict(checks: Sequence[Check]) -> RenderableType:
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
        width=WIDTH - 1,
    )
