"""`hushmq ledger show|verify|export`: what was promised, what was spent, what is left.

The actions describe themselves without the calibrator's dependencies; those are needed to run one.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmq.broker.contract.problem import Problem

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from hushmq.calibrator.ledger.verify_ledger import Book

ACTIONS = {
    "show": "who spent what, when, on which assumption, and what is left",
    "verify": "recompute everything from the entries; exit code 1 if anything is wrong",
    "export": "all entries, as CSV or JSON lines",
}
EXAMPLES = """examples:
  hushmq ledger show --config calibrator.toml
  hushmq ledger plot --config calibrator.toml --output ledger.svg
  hushmq ledger show --database sqlite:////var/lib/hushmq/ledger.db --stream motion --json
  hushmq ledger verify --config calibrator.toml
  hushmq ledger export --config calibrator.toml --format csv > ledger.csv"""
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 60


def configure(actions: Any) -> None:
    """Add the actions to the parsers of `hushmq ledger`."""
    for name, help_ in ACTIONS.items():
        action = actions.add_parser(
            name, help=help_, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        add_where(action)
        if name == "export":
            action.add_argument("--format", choices=("csv", "jsonl"), default="csv", help="default: csv")
        else:
            action.add_argument("--json", action="store_true", help="as one JSON object")
        if name == "show":
            action.add_argument(
                "--last", type=int, default=10, metavar="N", help="entries shown; default: 10"
            )


def add_where(action: argparse.ArgumentParser) -> None:
    """Add the options that say which ledger."""
    where = action.add_mutually_exclusive_group(required=True)
    where.add_argument("--config", type=Path, metavar="FILE", help="the calibrator's settings file")
    where.add_argument("--database", metavar="URL", help="the database itself")
    action.add_argument("--stream", help="this stream only")


def run(args: argparse.Namespace) -> int:
    """Run the chosen action on a database that is only read."""
    with _opened(args) as (db, mark_path):
        if args.action == "show":
            return _show(db, args)
        if args.action == "verify":
            return _verify(db, args, mark_path)
        return _export(db, args)


def books(args: argparse.Namespace) -> list[Book]:
    """The accounts of the streams asked for, for whoever draws them."""
    with _opened(args) as (db, _):
        return _books(db, args)


def _books(db: Connection, args: argparse.Namespace) -> list[Book]:
    from hushmq.calibrator.ledger.verify_ledger import read_book, streams  # noqa: PLC0415  # as above

    return [read_book(db, stream) for stream in streams(db, args.stream)]


@contextmanager
def _opened(args: argparse.Namespace) -> Iterator[tuple[Connection, Path | None]]:
    try:
        from hushmq.calibrator.calibrator_config import load  # noqa: PLC0415  # the parser alone needs none of it
        from hushmq.calibrator.store.tables import open_to_read  # noqa: PLC0415  # as above
    except ModuleNotFoundError as error:
        raise Problem(
            f"'hushmq ledger {args.action}' needs {error.name}, which is not installed: "
            "pip install 'hushmq[calibrator]'"
        ) from None
    config = load(args.config) if args.config is not None else None
    engine = open_to_read(config.database if config else args.database)
    try:
        with engine.connect() as db:
            yield db, config.mark_path if config else None
    finally:
        engine.dispose()


def _show(db: Connection, args: argparse.Namespace) -> int:
    if args.last < 0:
        raise Problem(f"--last: {args.last} is below 0: give how many entries to show")
    found = _books(db, args)
    if args.json:
        print(json.dumps({book.stream: _summary(book) for book in found}, allow_nan=False))
        return 0
    if not found:
        print("the ledger is empty, and no policy has been followed yet")
    for book in found:
        _print_book(book, args.last)
    return 0


def _summary(book: Book) -> dict[str, Any]:
    from hushmq.calibrator.models.chain_model import theta_tree  # noqa: PLC0415  # the parser alone needs none of it

    budgets = book.policy.epsilon if book.policy else None
    accounts = {
        name: {"budget": budget, "loss": loss, "left": None if budget is None else budget - loss}
        for name, budget, loss in (
            ("operator", budgets.operator if budgets else None, book.operator),
            ("public", budgets.public if budgets else None, book.public),
        )
    }
    return {
        **accounts,
        "adversary": book.policy.adversary if book.policy else None,
        "theta": None if book.theta is None else theta_tree(book.theta),
        "late_ticks": book.late,
        "misfit": _misfit(book),
        "devices": {
            name: {**theta_tree(one.theta), "own_setting": one.version} for name, one in book.devices.items()
        },
        "windows": [
            {
                "window": window,
                "scope": scope,
                "entries": count,
                "tilt": tilt / 1e9,
                "since": since,
                "until": until,
            }
            for window, scope, count, tilt, since, until in _spenders(book)
        ],
        "entries": [dict(row._mapping) for row in book.entries],
        "history": [{"entry": point.entry, "at": point.at, "loss": point.loss} for point in book.history],
    }


def _misfit(book: Book) -> dict[str, Any] | None:
    if book.misfit is None or book.policy is None:
        return None
    return {
        "bands": [
            {"first": one.first, "last": one.last, "seen": one.seen, "fitted": one.fitted, "error": one.error}
            for one in book.misfit.bands
        ],
        "shift": book.misfit.shift,
        "hidden": book.hidden,
        "covered": book.policy.misfit == "cover",
    }


def _spenders(book: Book) -> list[tuple[str, str, int, int, str, str]]:
    """Who spent: window, scope, entries, the largest tilt of one, when first and last."""
    found: dict[tuple[str, str], list[Any]] = {}
    for row in book.entries:
        found.setdefault((row.window, row.scope), []).append(row)
    return [
        (*who, len(rows), max(row.tilt for row in rows), rows[0].at, rows[-1].at)
        for who, rows in sorted(found.items())
    ]


def _print_book(book: Book, last: int) -> None:
    from rich.console import Console  # noqa: PLC0415  # as above
    from rich.table import Table  # noqa: PLC0415  # as above

    from hushmq.calibrator.models.chain_model import in_words  # noqa: PLC0415  # as above

    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(f"[bold]{book.stream}[/bold]", highlight=False)
    if book.policy is None or book.theta is None:
        console.print(f"no policy speaks of it; {len(book.entries)} entries")
    else:
        accounts = Table("audience", "budget ε", "loss", "left", box=None, padding=(0, 2))
        for name, budget, loss in (
            ("operator", book.policy.epsilon.operator, book.operator),
            ("public", book.policy.epsilon.public, book.public),
        ):
            over = "" if loss <= budget else "[bold red]"
            accounts.add_row(name, f"{budget:g}", f"{over}{loss:.4f}", f"{over}{budget - loss:.4f}")
        console.print(accounts)
        console.print(
            f"assuming {in_words(book.theta)}, {book.policy.adversary} adversary; "
            f"{len(book.entries)} entries, {book.late} ticks came late",
            highlight=False,
        )
        console.print(_misfit_in_words(book), highlight=False)
        own = sum(one.version is not None for one in book.devices.values())
        if book.devices:
            console.print(
                f"{len(book.devices)} devices have a Θ of their own, {own} of them noise of their own",
                highlight=False,
            )
        if book.history:
            console.print(f"public loss  {_plot(book)}", highlight=False)
        if book.entries:
            spenders = Table("window", "scope", "entries", "tilt", "since", "until", box=None, padding=(0, 2))
            for window, scope, count, tilt, since, until in _spenders(book):
                spenders.add_row(window, scope, str(count), f"{tilt / 1e9:.6f}", since, until)
            console.print(spenders)
    if last and book.entries:
        table = Table("entry", "when", "window", "scope", "ticks", "tilt", "why", box=None, padding=(0, 2))
        for row in book.entries[-last:]:
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


def _misfit_in_words(book: Book) -> str:
    from hushmq.calibrator.learning.learn_window import HIDDEN  # noqa: PLC0415  # as above

    worst = book.misfit.worst if book.misfit else None
    if book.misfit is None:
        return "misfit: not measured yet"
    if worst is None and book.hidden > HIDDEN and book.policy and book.policy.misfit == "cover":
        return (
            f"misfit: none beyond doubt over lags up to 40, but a correlation of {book.hidden:.2f} could be hidden; "
            f"Θ is not narrowed above {HIDDEN:g}"
        )
    if worst is None:
        return "misfit: none beyond doubt over lags up to 40"
    covered = (
        "Θ covers it"
        if book.policy and book.policy.misfit == "cover"
        else "reported only, Θ does not cover it"
    )
    return (
        f"misfit: over lags {worst.first} to {worst.last} the correlation is {worst.seen:.2f}, of the fitted chains "
        f"{worst.fitted:.2f}; {covered}"
    )


def _plot(book: Book) -> str:
    """The public loss over the entries, a column each or several together, from 0 to the budget."""
    losses = [point.loss for point in book.history]
    columns = min(WIDTH, len(losses))
    top = max(book.policy.epsilon.public if book.policy else 0.0, *losses)
    ends = [(number + 1) * len(losses) // columns - 1 for number in range(columns)]
    bars = "".join(BARS[min(len(BARS) - 1, int(losses[end] / top * len(BARS)))] for end in ends)
    return f"{bars}  0 to {top:g}, {book.history[0].at} to {book.history[-1].at}"


def _verify(db: Connection, args: argparse.Namespace, mark_path: Path | None) -> int:
    from hushmq.calibrator.ledger.verify_ledger import streams, verify  # noqa: PLC0415  # as above

    checks = [check for stream in streams(db, args.stream) for check in verify(db, stream, mark_path)]
    right = all(check.passed for check in checks)
    if args.json:
        told = [
            {"stream": one.stream, "check": one.name, "passed": one.passed, "detail": one.detail}
            for one in checks
        ]
        print(json.dumps({"right": right, "checks": told}))
        return 0 if right else 1
    for one in checks:
        print(f"{'right' if one.passed else 'WRONG'}  {one.stream}: {one.name}: {one.detail}")
    print("the ledger is right" if right else "the ledger is WRONG")
    return 0 if right else 1


def _export(db: Connection, args: argparse.Namespace) -> int:
    from sqlalchemy import select  # noqa: PLC0415  # as above

    from hushmq.calibrator.ledger.verify_ledger import streams  # noqa: PLC0415  # as above
    from hushmq.calibrator.store.tables import ledger  # noqa: PLC0415  # as above

    wanted = streams(db, args.stream)
    rows = db.execute(select(ledger).where(ledger.c.stream.in_(wanted)).order_by(ledger.c.id))
    if args.format == "jsonl":
        for row in rows:
            print(json.dumps(dict(row._mapping), allow_nan=False))
        return 0
    writer = csv.writer(sys.stdout)
    writer.writerow([column.name for column in ledger.columns])
    writer.writerows(tuple(row) for row in rows)
    return 0
