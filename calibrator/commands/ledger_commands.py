"""`hushmq ledger show|verify|disclose|export|archive|reconcile`: what was promised, what was spent, what is left.

The actions describe themselves without the calibrator's dependencies; those are needed to run one.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.commands import archive_command

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from hushmq.calibrator.calibrator_config import Config
    from hushmq.calibrator.ledger.ledger_report import StreamLedger

ACTIONS = {
    "show": "who spent what, when, on which assumption, and what is left",
    "verify": "recompute everything from the entries; exit code 1 if anything is wrong",
    "disclose": "what is promised, for programs: NIST SP 800-226 and the registry of deployments, sealed",
    "export": "all entries, as CSV or JSON lines; or all that `hushmq verify` checks",
}
EXAMPLES = """A loss is about any one instant and does not add up over windows: 0 left does not mean that they end.

examples:
  hushmq ledger show --config calibrator.toml
  hushmq ledger plot --config calibrator.toml --output ledger.svg
  hushmq ledger show --database sqlite:////var/lib/hushmq/ledger.db --stream motion --json
  hushmq ledger verify --config calibrator.toml
  hushmq ledger disclose --config calibrator.toml > disclosure.json
  hushmq ledger disclose --config calibrator.toml --out console/disclosure.json   # the console offers it
  hushmq ledger export --config calibrator.toml --format csv > ledger.csv
  hushmq ledger export --config calibrator.toml --format bundle > export.json   # for hushmq verify"""

RECONCILING = """Every tick from the first that a lost entry can be about up to now is charged its worst case: the whole
budget. It states what may have been lost and gives nothing back; a new epoch begins after it, with its own budget.
Without --key nothing is changed: what would be charged is shown.

examples:
  hushmq ledger reconcile --config calibrator.toml                                  # what would be charged
  hushmq ledger reconcile --config calibrator.toml --key ops.key
  hushmq ledger reconcile --config calibrator.toml --out lost.json                  # and where the key is:
  hushmq ledger reconcile --statement lost.json --key ops.key --out signed.json     # and back:
  hushmq ledger reconcile --config calibrator.toml --statement signed.json"""


def configure(actions: Any) -> None:
    """Add the actions to the parsers of `hushmq ledger`."""
    for name, help_ in ACTIONS.items():
        action = actions.add_parser(
            name, help=help_, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        add_where(action)
        if name == "export":
            action.add_argument(
                "--format",
                choices=("csv", "jsonl", "bundle"),
                default="csv",
                help="csv (default) and jsonl: entries; bundle: signed policies and settings, entries, results and "
                "stated losses, sealed, for hushmq verify",
            )
        elif name == "disclose":
            _add_organisation(action)
        else:
            action.add_argument("--json", action="store_true", help="as one JSON object")
        if name == "verify":
            archive_command.add_archive(action)
        if name == "show":
            action.add_argument(
                "--last", type=int, default=10, metavar="N", help="entries shown; default: 10"
            )
    archive_command.configure(actions)
    _configure_reconcile(
        actions.add_parser(
            "reconcile",
            help="charge what a ledger restored from an old backup has lost, signed by ops",
            epilog=RECONCILING,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )


def _configure_reconcile(action: argparse.ArgumentParser) -> None:
    """Add the options of the only action that writes."""
    action.add_argument("--config", type=Path, metavar="FILE", help="the calibrator's settings file")
    action.add_argument("--cohort", metavar="NAME", help="the cohort, where the settings file is a fleet's")
    action.add_argument("--stream", help="this stream only; default: all that are stopped")
    action.add_argument("--key", type=Path, metavar="FILE", help="the private key of ops: sign, and charge")
    action.add_argument(
        "--out", type=Path, metavar="FILE.json", help="write the statement, or the signed one"
    )
    action.add_argument(
        "--statement", type=Path, metavar="FILE.json", help="a statement to sign, or with --config to charge"
    )
    action.add_argument(
        "--policy",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a policy that was followed and that the database has lost, signed or not; may be repeated",
    )
    action.add_argument(
        "--settings",
        type=int,
        default=0,
        metavar="N",
        help="the highest version of a noise setting that a device states, where the database has lost it",
    )
    action.add_argument("--yes", action="store_true", help="charge without asking for confirmation")
    action.add_argument("--json", action="store_true", help="print one JSON object")


def _add_organisation(action: argparse.ArgumentParser) -> None:
    """Add the options for what the registry asks of an organisation."""
    action.add_argument(
        "--out", type=Path, metavar="FILE", help="write it there, all at once; default: standard output"
    )
    given = action.add_argument_group(
        "for the registry of deployments", "what is not given is named in `missing` of each record"
    )
    given.add_argument(
        "--curator", action="append", default=[], metavar="NAME", help="who publishes; may be repeated"
    )
    given.add_argument("--use", metavar="TEXT", help="the intended use of the releases")
    given.add_argument("--region", metavar="TEXT", help="the region that the data is about")
    given.add_argument(
        "--sector",
        choices=("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
        help="the sector",
    )
    given.add_argument(
        "--author",
        action="append",
        default=[],
        metavar="NAME",
        help="who answers for the record; may be repeated",
    )


def add_where(action: argparse.ArgumentParser) -> None:
    """Add the options that say which ledger."""
    where = action.add_mutually_exclusive_group(required=True)
    where.add_argument("--config", type=Path, metavar="FILE", help="the calibrator's settings file")
    where.add_argument("--database", metavar="URL", help="the database itself")
    action.add_argument("--cohort", metavar="NAME", help="the cohort, where the settings file is a fleet's")
    action.add_argument("--stream", help="this stream only")


def run(args: argparse.Namespace) -> int:
    """Run the chosen action; all but archive and reconcile only read the database."""
    if args.action == "reconcile":
        return _reconcile(args)
    if args.action == "archive":
        try:
            return archive_command.run(args)
        except ModuleNotFoundError as error:
            raise _missing(args, error) from None
    if args.action == "export" and args.format == "bundle":
        return _export_bundle(args)
    if args.action == "disclose":
        return _disclose(args)
    with _opened(args) as (db, config):
        if args.action == "show":
            return _show(db, args, config)
        if args.action == "verify":
            return _verify(db, args, config)
        return _export(db, args)


def _reconcile(args: argparse.Namespace) -> int:
    try:
        from hushmq.calibrator.commands import reconcile_command  # noqa: PLC0415  # the parser alone needs none of it
    except ModuleNotFoundError as error:
        raise _missing(args, error) from None
    return reconcile_command.run(args)


def _missing(args: argparse.Namespace, error: ModuleNotFoundError) -> Problem:
    return Problem(
        f"'hushmq ledger {args.action}' needs {error.name}, which is not installed: pip install 'hushmq[calibrator]'"
    )


def ledgers(args: argparse.Namespace) -> list[StreamLedger]:
    """The accounts of the streams asked for, for whoever draws them."""
    with _opened(args) as (db, _):
        return _ledgers(db, args)


def _ledgers(db: Connection, args: argparse.Namespace) -> list[StreamLedger]:
    from hushmq.calibrator.ledger.ledger_report import read_ledger, streams  # noqa: PLC0415  # as above

    return [read_ledger(db, stream) for stream in streams(db, args.stream)]


@contextmanager
def _opened(args: argparse.Namespace) -> Iterator[tuple[Connection, Config | None]]:
    try:
        from hushmq.calibrator.fleet_config import load  # noqa: PLC0415  # the parser alone needs none of it
        from hushmq.calibrator.store.open_database import open_to_read  # noqa: PLC0415  # as above
    except ModuleNotFoundError as error:
        raise _missing(args, error) from None
    config = load(args.config, args.cohort) if args.config is not None else None
    engine = open_to_read(config.database if config else args.database)
    try:
        with engine.connect() as db:
            yield db, config
    finally:
        engine.dispose()


def _show(db: Connection, args: argparse.Namespace, config: Config | None) -> int:
    if args.last < 0:
        raise Problem(f"--last: {args.last} is below 0: give how many entries to show")
    from hushmq.calibrator.commands.show_ledger import print_ledger, summary  # noqa: PLC0415  # as above
    from hushmq.calibrator.ledger.archived_releases import archive_records, archived_in_words  # noqa: PLC0415
    from hushmq.calibrator.ledger.high_water_mark import unreached_marks  # noqa: PLC0415  # as above

    found = _ledgers(db, args)
    stopped = unreached_marks(db, config.mark_path, config.keys.trusted) if config else {}
    if args.json:
        shown = {
            account.stream: summary(account) | {"stopped": stopped.get(account.stream)} for account in found
        }
        print(json.dumps(shown, allow_nan=False))
        return 0
    if not found:
        print("the ledger is empty, and no policy has been followed yet")
    for account in found:
        print_ledger(account, args.last, _more(db, account, found))
        if account.stream in stopped:
            print(f"STOPPED: {stopped[account.stream]}; nothing of {account.stream} is charged or released")
    if archived := archived_in_words(archive_records(db)):
        print(archived)
    return 0


def _more(db: Connection, account: StreamLedger, known: Sequence[StreamLedger]) -> str | None:
    """What one more window, stream or a higher ε would come to; None where nothing is released of the stream."""
    from hushmq.broker.forecast.what_if import more_in_words  # noqa: PLC0415  # as above
    from hushmq.calibrator.ledger.ledger_report import stored_policy  # noqa: PLC0415  # as above
    from hushmq.calibrator.store.tick_counts import counted_ticks  # noqa: PLC0415  # as above

    policy = stored_policy(db)
    if policy is None or account.policy is None:
        return None
    counted = {device for device, stream in counted_ticks(db) if stream == account.stream}
    devices = max(1, len(counted - account.left_out.keys()))
    thetas = {one.stream: one.theta for one in known if one.theta is not None}
    return more_in_words(policy, account.stream, thetas, devices)


def _verify(db: Connection, args: argparse.Namespace, config: Config | None) -> int:
    from hushmq.calibrator.ledger.archived_releases import (  # noqa: PLC0415  # as above
        archive_records,
        archived_in_words,
        opened,
    )
    from hushmq.calibrator.ledger.ledger_report import streams  # noqa: PLC0415  # as above
    from hushmq.calibrator.ledger.verify_ledger import check_archive, verify  # noqa: PLC0415  # as above

    mark_path, ops_keys = (config.mark_path, config.keys.trusted) if config else (None, None)
    archived, checks = opened(db, args.archive), []
    if archived is not None:
        cohort, key = (config.cohort, config.keys.signing_key.public) if config else (None, None)
        checks = [check_archive(archived, cohort=cohort, key=key)]
        archived = archived if checks[0].passed else None
    checks += [
        check
        for stream in streams(db, args.stream)
        for check in verify(db, stream, mark_path, ops_keys, archived=archived)
    ]
    unread = archived_in_words(archive_records(db)) if args.archive is None else None
    right = all(check.passed for check in checks)
    if args.json:
        results = [
            {"stream": one.stream, "check": one.name, "passed": one.passed, "detail": one.detail}
            for one in checks
        ]
        print(json.dumps({"right": right, "checks": results, "not_checked": unread}))
        return 0 if right else 1
    for one in checks:
        print(f"{'right' if one.passed else 'WRONG'}  {one.stream}: {one.name}: {one.detail}")
    if unread:
        print(f"not checked: {unread}: give --archive DIR")
    print("the ledger is right" if right else "the ledger is WRONG")
    return 0 if right else 1


def _export(db: Connection, args: argparse.Namespace) -> int:
    from sqlalchemy import select  # noqa: PLC0415  # as above

    from hushmq.calibrator.ledger.ledger_report import streams  # noqa: PLC0415  # as above
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


def _disclose(args: argparse.Namespace) -> int:
    if args.config is None:
        raise Problem("--database: a disclosure is sealed and names the cohort: give --config")
    if args.stream is not None:
        raise Problem("--stream: a disclosure holds all streams")
    with _opened(args) as (db, _):
        from hushmq.calibrator.fleet_config import load  # noqa: PLC0415  # as above
        from hushmq.calibrator.ledger.disclosure import disclose  # noqa: PLC0415  # as above
        from hushmq.calibrator.ledger.registry_record import Organisation  # noqa: PLC0415  # as above

        config = load(args.config, args.cohort)
        organisation = Organisation(
            tuple(args.curator), args.use, args.region, args.sector, tuple(args.author)
        )
        found = disclose(db, cohort=config.cohort, key=config.keys.signing_key, organisation=organisation)
    text = json.dumps(found, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    if args.out is None:
        print(text, end="")
    else:
        _replace(args.out, text)
    return 0


def _replace(path: Path, text: str) -> None:
    """Put a new file in the place of the old one: whoever reads it meanwhile has one of them, whole."""
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise Problem(f"--out: {path}: {error.strerror}") from None


def _export_bundle(args: argparse.Namespace) -> int:
    if args.config is None:
        raise Problem("--database: a bundle is sealed and names the cohort: give --config")
    if args.stream is not None:
        raise Problem("--stream: a bundle holds all streams, as a check of some of them would be incomplete")
    with _opened(args) as (db, _):
        from hushmq.broker.service.log import logger  # noqa: PLC0415  # as above
        from hushmq.calibrator.fleet_config import load  # noqa: PLC0415  # as above
        from hushmq.calibrator.ledger.ledger_export import export_bundle  # noqa: PLC0415  # as above

        # One snapshot of a ledger that a calibrator may be writing to.
        sqlite = db.dialect.name == "sqlite"
        db.exec_driver_sql("BEGIN" if sqlite else "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        config = load(args.config, args.cohort)
        keys = config.keys
        found = export_bundle(
            db,
            cohort=config.cohort,
            key=keys.signing_key,
            ops_keys=keys.trusted,
            log=logger("error", "console", sys.stderr),
        )
    print(json.dumps(found, ensure_ascii=False, allow_nan=False))
    return 0
