"""`hushmq ledger archive`: move old releases out of the database, to files that still verify.

The options describe themselves without the calibrator's dependencies; those are needed to run it.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hushmq.broker.contract.problem import Problem

NOTES = """Entries stay in the database, since every loss is computed from all of them; what was published for old ones
is moved to files in a folder, each sealed by the calibrator and chained to the one before it. The newest 256 windows
of every sequence and the newest release of every topic always stay. Nothing is deleted before it is in a file
on disk, and the calibrator may be running. Keep the files: hushmq ledger verify --archive DIR and hushmq verify
EXPORT --archive DIR check them with the rest.

examples:
  hushmq ledger archive --config calibrator.toml --keep-days 90 --out archive
  hushmq ledger archive --config fleet.toml --cohort ward-1 --before 2026-01-01 --out /srv/archive/ward-1
  hushmq ledger verify --config calibrator.toml --archive archive
  hushmq releases export home --archive archive > all.csv"""


def configure(actions: Any) -> None:
    """Add the action to the parsers of `hushmq ledger`."""
    action = actions.add_parser(
        "archive",
        help="move old releases to sealed files, outside of the database",
        epilog=NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    action.add_argument(
        "--config", type=Path, metavar="FILE", required=True, help="the calibrator's settings file"
    )
    action.add_argument("--cohort", metavar="NAME", help="the cohort, where the settings file is a fleet's")
    when = action.add_mutually_exclusive_group(required=True)
    when.add_argument("--before", metavar="DATE", help="what was charged before this day, in UTC: YYYY-MM-DD")
    when.add_argument("--keep-days", type=int, metavar="N", help="what was charged more than N days ago")
    action.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        required=True,
        help="the folder of the archive; made if it is missing",
    )
    action.add_argument("--json", action="store_true", help="print one JSON object")


def add_archive(action: argparse.ArgumentParser) -> None:
    """`--archive`: where releases that were moved are."""
    action.add_argument(
        "--archive", type=Path, metavar="DIR", help="the folder that hushmq ledger archive wrote to"
    )


def run(args: argparse.Namespace) -> int:
    """Move what is old enough, file by file."""
    from hushmq.calibrator.fleet_config import load  # noqa: PLC0415  # the parser alone needs none of it
    from hushmq.calibrator.ledger.archive_releases import KEPT, archive_releases  # noqa: PLC0415  # as above
    from hushmq.calibrator.store.open_database import check_exists, open_store, plain_engine  # noqa: PLC0415

    before = _before(args)
    config = load(args.config, args.cohort)
    check_exists(plain_engine(config.database))
    engine = open_store(config.database)
    try:
        found = []
        for one in archive_releases(
            engine,
            args.out,
            cohort=config.cohort,
            key=config.keys.signing_key,
            before=before,
            kept=KEPT,
        ):
            found.append(one)
            if not args.json:
                path = args.out / one.file_name(config.cohort)
                print(f"{path}: {one.releases:,} releases, of entries {one.first} to {one.last}", flush=True)
    finally:
        engine.dispose()
    if args.json:
        files = [
            {
                "file": one.file_name(config.cohort),
                "releases": one.releases,
                "first": one.first,
                "last": one.last,
            }
            for one in found
        ]
        print(json.dumps({"before": before, "releases": sum(one.releases for one in found), "files": files}))
    elif not found:
        print(f"nothing was moved: no release before {before} may leave the database")
    return 0


def _before(args: argparse.Namespace) -> str:
    """The time before which entries are old, as the ledger writes times."""
    if args.before is None:
        if not 0 <= args.keep_days <= 36_500:
            raise Problem(f"--keep-days: {args.keep_days} is not a number of days from 0 to 36500")
        return (datetime.now(UTC) - timedelta(days=args.keep_days)).isoformat(timespec="seconds")
    try:
        day = datetime.strptime(args.before, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise Problem(f"--before: {args.before!r} is no day: write it as 2026-01-31") from None
    return day.isoformat(timespec="seconds")
