"""`hushmq calibrator upgrade`: which revision a database has, and the upgrade that a calibrator would make at start."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.fleet_config import load
from hushmq.calibrator.store.migrate import cause, revision_of, shown, upgrade
from hushmq.calibrator.store.open_database import check_exists, open_to_upgrade, plain_engine, reading
from hushmq.calibrator.store.revisions import OURS, Revision, Revisions


def run(args: argparse.Namespace, *, revisions: Revisions = OURS) -> int:
    """Upgrade, or say what is due; Problem when the database does not exist or must be left alone."""
    url = args.database or load(args.config, args.cohort).database
    engine = open_to_upgrade(url)
    check_exists(engine)
    try:
        with reading(plain_engine(url)) as db:
            revision = revision_of(db, revisions)
        if revision is None:
            raise Problem(f"database: {shown(engine)} is empty: the calibrator creates its tables at start")
        due = revisions.after(revision)
        backup = None if args.dry_run else upgrade(engine, revisions=revisions).backup
    except SQLAlchemyError as error:
        raise Problem(f"database: {shown(engine)} cannot be opened: {cause(error)}") from None
    finally:
        engine.dispose()
    if args.json:
        report = {
            "database": shown(engine),
            "revision": revision if args.dry_run else revisions.newest,
            "newest": revisions.newest,
            "due" if args.dry_run else "done": [
                {"revision": one.number, "summary": one.summary} for one in due
            ],
            "backup": None if backup is None else str(backup),
        }
        print(json.dumps(report))
    else:
        _print(shown(engine), revision, due, backup, dry_run=args.dry_run)
    return 1 if args.dry_run and due else 0


def _print(
    name: str, revision: str, due: tuple[Revision, ...], backup: Path | None, *, dry_run: bool
) -> None:
    if not due:
        print(f"{name}: revision {revision}, up to date")
        return
    print(
        f"{name}: revision {revision}, {'to be upgraded to' if dry_run else 'upgraded to'} {due[-1].number}"
    )
    for one in due:
        print(f"  {one.number}  {one.summary}")
    if backup is not None:
        print(f"the database as it was: {backup}")
