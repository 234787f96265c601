"""What is wrong with a site, in words, and what to do about it, the gravest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hushmq.broker.contract.messages import LedgerState
from hushmq.console.pages_text import moment
from hushmq.console.state.device_rows import DeviceRow
from hushmq.console.state.live_site import LiveSite
from hushmq.console.state.reasons import WORDS

Severity = Literal["bad", "warn", "note"]
SLACK_S = 60.0
"""A window that is not closed so long after its end and the grace is overdue."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that an operator should know."""

    severity: Severity
    words: str
    todo: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class WindowState:
    """How far the windows of one stream and name are closed."""

    stream: str
    window: str
    ticks: int
    period_ms: int
    closed_to: float | None
    """The end of the last closed window, in seconds since the epoch; None before the first."""

    @property
    def length_s(self) -> float:
        return self.ticks * self.period_ms / 1000

    def due(self, grace_s: float, now: float) -> float:
        """When the next window closes, in seconds since the epoch."""
        end = now if self.closed_to is None else self.closed_to
        return (end // self.length_s + 1) * self.length_s + grace_s

    def overdue(self, grace_s: float, now: float) -> bool:
        """Whether the next window should have closed."""
        return self.closed_to is not None and now > self.due(grace_s, now) + SLACK_S


def window_states(site: LiveSite, closed: Mapping[tuple[str, str, str], int]) -> list[WindowState]:
    """All windows of the policy that the calibrator closes."""
    policy = site.public.policy
    found = []
    for stream, one in sorted(policy.streams.items()) if policy else ():
        for name, window in one.windows.items():
            through = max(
                (last for (of, named, _), last in closed.items() if (of, named) == (stream, name)),
                default=None,
            )
            end = None if through is None else (through + 1) * one.stride_ms / 1000
            found.append(WindowState(stream, name, window.ticks, one.period_ms, end))
    return found


def alarms(
    site: LiveSite,
    rows: Sequence[DeviceRow],
    windows: Sequence[WindowState],
    *,
    health: Mapping[str, object] | None,
    database_error: str | None,
    grace_s: float,
    now: float,
) -> list[Alarm]:
    """All that is wrong; an empty list while all is well."""
    found = [
        *_processes(site, health, database_error),
        *_windows(windows, grace_s, now),
        *_accounts(site),
        *_devices(rows),
    ]
    order: list[Severity] = ["bad", "warn", "note"]
    return sorted(found, key=lambda one: order.index(one.severity))


def _processes(
    site: LiveSite, health: Mapping[str, object] | None, database_error: str | None
) -> Iterator[Alarm]:
    if not site.connected:
        yield Alarm(
            "bad",
            f"The console is not connected to the broker: {site.error or 'no answer yet'}.",
            "See whether the broker runs (`hushmq broker show`), and whether it knows the console's identity. "
            "What is shown of devices is as it was before.",
        )
    if database_error is not None:
        yield Alarm(
            "bad", f"The {database_error}.", "Check `database` in console.toml and the file's rights."
        )
    if site.connected and site.public.policy is None:
        yield Alarm(
            "warn",
            "No policy signed by ops is on the broker: devices publish nothing.",
            "Push one: `hushmq push policy.toml --key ops.key --broker …`.",
        )
    if health is not None:
        if "silent" in health:
            yield Alarm(
                "bad",
                f"The calibrator does not answer at {health['silent']}.",
                "See whether it runs: `hushmq calibrator run --config calibrator.toml`; its log has its last words. "
                "Nothing is lost: devices keep what was not counted.",
            )
        wrong = health.get("wrong")
        for words in wrong if isinstance(wrong, list) else ():
            yield Alarm(
                "bad", f"The calibrator says: {words}.", "See its log; docs/log-events.md explains events."
            )
    if site.rejected:
        yield Alarm(
            "warn",
            f"{site.rejected} messages were not of the contract, or not signed by a key that is trusted here.",
            "Compare `keys` in console.toml with `hushmq keys show`, and find out who writes to the topics.",
        )


def _windows(windows: Sequence[WindowState], grace_s: float, now: float) -> Iterator[Alarm]:
    late = [one for one in windows if one.overdue(grace_s, now)]
    if late:
        names = ", ".join(f"{one.stream}/{one.window}" for one in late)
        yield Alarm(
            "bad",
            f"Windows do not close: {names}.",
            "See whether the calibrator runs: `hushmq calibrator run --config calibrator.toml`. "
            "Nothing is lost: devices keep what was not counted.",
        )


def _accounts(site: LiveSite) -> Iterator[Alarm]:
    for stream, state in sorted(site.ledgers.items()):
        if state.stopped is not None:
            yield Alarm(
                "bad",
                f"{stream} releases nothing: {state.stopped}.",
                "Push a policy with that epoch; the Promise page says what was lost until then."
                if state.public.left < 0
                else "Verify the ledger. If the database was restored from an older copy, put back the newer one, or "
                "see what was lost and what that costs: `hushmq ledger reconcile --config calibrator.toml`.",
                f"/promise?stream={stream}",
            )
        yield from _broken_promises(stream, state, site.public.stride_ms(stream) / 1000)
        if state.misfit is not None and not state.misfit.covered:
            yield Alarm(
                "warn",
                f"{stream}: the data remembers longer than the chains of Θ (lags {state.misfit.first} to "
                f"{state.misfit.last}), and the policy only reports it.",
                'Write `misfit = "cover"` in the policy, or a wider Θ.',
                f"/promise?stream={stream}",
            )


def _broken_promises(stream: str, state: LedgerState, tick_s: float) -> Iterator[Alarm]:
    """An alarm for each ended epoch in which more could be inferred than was promised."""
    for ended in state.ended:
        lost = [
            f"{loss:.2f} instead of {account.budget:g} for {readers}"
            for readers, loss, account in (
                ("operators", ended.operator, state.operator),
                ("the public", ended.public, state.public),
            )
            if loss > account.budget
        ]
        if lost:
            since = f"From {moment(ended.first * tick_s)} to" if ended.first else "Until"
            yield Alarm(
                "bad",
                f"{stream}: {since} {moment((ended.last + 1) * tick_s)} UTC the promise did not hold: the loss may be "
                f"up to {' and '.join(lost)}.",
                "The data was unlike Θ. What is published cannot be taken back, and those concerned should know; the "
                "stream goes on within its budget. See the Promise page.",
                f"/promise?stream={stream}",
            )


def _devices(rows: Sequence[DeviceRow]) -> Iterator[Alarm]:
    refusing = [row for row in rows if "refusing" in row.marks]
    reasons = Counter(
        why.partition(": ")[2] for row in refusing for why in row.why if why.startswith("refuses")
    )
    for words, count in reasons.most_common():
        todo = next((todo for said, todo in WORDS.values() if said == words), "")
        yield Alarm(
            "bad",
            f"{_number(count, 'device')} {'refuses' if count == 1 else 'refuse'} what was pushed: {words}.",
            todo,
            "/devices?show=refusing",
        )
    marked: tuple[tuple[str, Severity, str, str], ...] = (
        ("quarantined", "bad", "in quarantine", "Their ticks are filled meanwhile. See each one's reason."),
        ("left-out", "warn", "left out of windows", "Repair them, then: `hushmq calibrator readmit`."),
        ("dropping", "warn", "dropping ticks", "Their queue is full: see whether they reach the broker."),
        ("behind", "note", "behind the setting in force", "Most catch up with their next beat."),
        ("offline", "note", "off line", "They keep what they measure, and send it when they are back."),
    )
    for mark, severity, words, todo in marked:
        count = sum(mark in row.marks for row in rows)
        if count:
            yield Alarm(severity, f"{_number(count, 'device')} {words}.", todo, f"/devices?show={mark}")


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
