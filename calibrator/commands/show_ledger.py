"""How `hushmq ledger show` shows the ledger of one stream: as tables, or as JSON."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from hushmq.broker.contract.messages import EpochReason
from hushmq.broker.forecast.chosen_words import chosen
from hushmq.calibrator.learning.stream_theta import MOST_UNDETECTABLE
from hushmq.calibrator.ledger.ledger_report import StreamLedger

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 60
REASONS: dict[EpochReason, str] = {
    "meaning": "another meaning of the states",
    "contradiction": "a contradiction",
    "ops": "ops",
    "restored": "a ledger restored from an old backup",
}
"""Why an epoch ended, in words."""
PER_INSTANT = (
    "a loss is about any one instant and does not add up over windows: 0 left does not mean that they end"
)


def summary(account: StreamLedger) -> dict[str, Any]:
    """The ledger of one stream for programs."""
    budgets = account.policy.epsilon if account.policy else None
    accounts = {
        name: {
            "budget": budget,
            "loss": loss,
            "left": None if budget is None else budget - loss,
            "undecided": undecided,
        }
        for name, budget, loss, undecided in (
            (
                "operator",
                budgets.operator if budgets else None,
                account.operator,
                account.undecided.operator,
            ),
            ("public", budgets.public if budgets else None, account.public, account.undecided.public),
        )
    }
    return {
        **accounts,
        "adversary": account.policy.adversary if account.policy else None,
        "theta": None if account.theta is None else account.theta.as_tree(),
        "chosen": [] if account.policy is None else chosen(account.policy),
        "account": _account(account),
        "groups": {name: list(devices) for name, devices in account.groups.items()},
        "epoch": {
            "number": account.epoch.number,
            "first": account.epoch.first,
            "reason": account.epoch.reason,
        },
        "ended": [
            {
                "number": one.epoch.number,
                "first": one.epoch.ticks[0],
                "last": one.epoch.ticks[1],
                "ended_by": one.epoch.ended_by,
                "theta": one.epoch.theta.as_tree(),
                "operator": one.operator,
                "public": one.public,
            }
            for one in account.ended
        ],
        "broken_promises": account.broken_promises(),
        "late_ticks": account.late,
        "misfit": _misfit(account),
        "devices": {
            name: {**one.theta.as_tree(), "own_setting": one.version} for name, one in account.devices.items()
        },
        "left_out": {
            name: {"since": one.since, "why": one.reason, "operator": one.operator, "public": one.public}
            for name, one in account.left_out.items()
        },
        "deceived": None if account.deceived is None else account.deceived.as_tree(),
        "windows": [
            {
                "window": window,
                "scope": scope,
                "entries": count,
                "tilt": tilt / 1e9,
                "since": since,
                "until": until,
            }
            for window, scope, count, tilt, since, until in _spenders(account)
        ],
        "entries": [dict(row._mapping) for row in account.entries],
        "history": [{"entry": point.entry, "at": point.at, "loss": point.loss} for point in account.history],
    }


def _account(account: StreamLedger) -> dict[str, Any] | None:
    """Whose account it is; None where the stream has its own."""
    shared = account.account
    if shared is None or shared.alone:
        return None
    return {"streams": shared.members, "devices": shared.devices, "share": shared.policy.tilt_share}


def _misfit(account: StreamLedger) -> dict[str, Any] | None:
    if account.misfit is None or account.policy is None:
        return None
    return {
        "bands": [
            {"first": one.first, "last": one.last, "seen": one.seen, "fitted": one.fitted, "error": one.error}
            for one in account.misfit.bands
        ],
        "shift": account.misfit.shift,
        "hidden": account.hidden,
        "covered": account.policy.misfit == "cover",
    }


def _spenders(account: StreamLedger) -> list[tuple[str, str, int, int, str, str]]:
    """Who spent: window, scope, entries, the largest tilt of one, when first and last."""
    found: dict[tuple[str, str], list[Any]] = {}
    for row in account.entries:
        found.setdefault((row.window, row.scope), []).append(row)
    return [
        (*who, len(rows), max(row.tilt for row in rows), rows[0].at, rows[-1].at)
        for who, rows in sorted(found.items())
    ]


def print_ledger(account: StreamLedger, last: int, more: str | None = None) -> None:
    """Print the ledger of one stream for people, with its `last` entries and what more would come to."""
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(f"[bold]{account.stream}[/bold]", highlight=False)
    if account.policy is None or account.theta is None:
        console.print(f"no policy has this stream; {len(account.entries)} entries")
    else:
        accounts = Table("audience", "budget ε", "loss", "left", "undecided", box=None, padding=(0, 2))
        for name, budget, loss, undecided in (
            ("operator", account.policy.epsilon.operator, account.operator, account.undecided.operator),
            ("public", account.policy.epsilon.public, account.public, account.undecided.public),
        ):
            over = "" if loss <= budget else "[bold red]"
            left = f"{over}{budget - loss:.4f}"
            accounts.add_row(name, f"{budget:g}", f"{over}{loss:.4f}", left, f"{undecided:.4f}")
        console.print(accounts)
        console.print(PER_INSTANT, highlight=False)
        for line in _account_in_words(account):
            console.print(line, highlight=False)
        console.print(
            f"assuming {account.theta.in_words()}, {account.policy.adversary} adversary; "
            f"{len(account.entries)} entries, {account.late} ticks came late",
            highlight=False,
        )
        console.print(
            "undecided: the loss to whoever knows Θ and not the chain; the long-run odds differ by "
            f"{account.theta.odds_spread:.4f} over Θ",
            highlight=False,
        )
        for words in chosen(account.policy):
            console.print(f"chosen: {words}", highlight=False)
        for sentence in _epochs_in_words(account):
            console.print(sentence, highlight=False)
        console.print(_misfit_in_words(account), highlight=False)
        specific = sum(one.version is not None for one in account.devices.values())
        if account.devices:
            console.print(
                f"{len(account.devices)} devices have a learned Θ, {specific} of them device-specific settings",
                highlight=False,
            )
        for name, one in account.left_out.items():
            console.print(
                f"{name} is left out from tick {one.since} on: {one.reason}; it may have lost {one.operator:.4f} to "
                f"operators, {one.public:.4f} to the public",
                highlight=False,
            )
        if account.deceived is not None:
            console.print(
                f"if learning is deceived, a device in the policy's start loses at most {account.deceived.in_words()}",
                highlight=False,
            )
        if more is not None:
            console.print(more, highlight=False)
        if account.history:
            console.print(f"public loss  {_plot(account)}", highlight=False)
        if account.entries:
            spenders = Table("window", "scope", "entries", "tilt", "since", "until", box=None, padding=(0, 2))
            for window, scope, count, tilt, since, until in _spenders(account):
                spenders.add_row(window, scope, str(count), f"{tilt / 1e9:.6f}", since, until)
            console.print(spenders)
    if last and account.entries:
        table = Table("entry", "when", "window", "scope", "ticks", "tilt", "why", box=None, padding=(0, 2))
        for row in account.entries[-last:]:
            table.add_row(
                str(row.id),
                row.at,
                row.window,
                row.scope,
                f"{row.first}…{row.last}",
                f"{row.tilt / 1e9:.6f}",
                row.why,
            )
        console.print(table)


def _account_in_words(account: StreamLedger) -> list[str]:
    shared = account.account
    if shared is None or shared.alone:
        return []
    names = ", ".join(shared.members)
    group = f" on each of {shared.devices} devices of the largest group" if shared.devices > 1 else ""
    lines = [f"one account: {names}{group}; the share of {account.stream} is {shared.policy.tilt_share:.4g}"]
    if account.groups:
        listed = "; ".join(
            f"{name}: {', '.join(devices)}" for name, devices in sorted(account.groups.items())
        )
        lines.append(f"groups: {listed}")
    return lines


def _epochs_in_words(account: StreamLedger) -> list[str]:
    """The epochs: which ticks, why they ended, what was lost; nothing where there is only one."""
    if not account.ended:
        return []
    lines = [
        f"epoch {one.epoch.number}, ticks {one.epoch.ticks[0]} to {one.epoch.ticks[1]}, ended by "
        f"{REASONS[one.epoch.ended_by]}: operator {one.operator:.4f}, public {one.public:.4f} under "
        f"{one.epoch.theta.in_brief()}"
        for one in account.ended
    ]
    broken = [f"[bold red]{sentence}[/bold red]" for sentence in account.broken_promises()]
    return [*lines, f"epoch {account.epoch.number} since tick {account.epoch.first}: as above", *broken]


def _misfit_in_words(account: StreamLedger) -> str:
    worst = account.misfit.worst if account.misfit else None
    if account.misfit is None:
        return "misfit: not measured yet"
    if (
        worst is None
        and account.hidden > MOST_UNDETECTABLE
        and account.policy
        and account.policy.misfit == "cover"
    ):
        return (
            f"misfit: none beyond doubt over lags up to 40, but a correlation of {account.hidden:.2f} could be hidden; "
            f"slow chains stay in Θ above {MOST_UNDETECTABLE:g}"
        )
    if worst is None:
        return "misfit: none beyond doubt over lags up to 40"
    covered = (
        "Θ covers it"
        if account.policy and account.policy.misfit == "cover"
        else "reported only, Θ does not cover it"
    )
    return (
        f"misfit: over lags {worst.first} to {worst.last} the correlation is {worst.seen:.2f}, of the fitted chains "
        f"{worst.fitted:.2f}; {covered}"
    )


def _plot(account: StreamLedger) -> str:
    """The public loss over the entries, a column each or several together, from 0 to the budget."""
    losses = [point.loss for point in account.history]
    columns = min(WIDTH, len(losses))
    top = max(account.policy.epsilon.public if account.policy else 0.0, *losses)
    ends = [(number + 1) * len(losses) // columns - 1 for number in range(columns)]
    bars = "".join(BARS[min(len(BARS) - 1, int(losses[end] / top * len(BARS)))] for end in ends)
    return f"{bars}  0 to {top:g}, {account.history[0].at} to {account.history[-1].at}"
