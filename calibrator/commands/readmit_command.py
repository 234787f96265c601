"""`hushmq calibrator readmit`: let a device that is left out be admitted again, with its next batch."""

from __future__ import annotations

import argparse
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.calibrator_config import load
from hushmq.calibrator.roster.left_out import left_out, readmit
from hushmq.calibrator.store.open_database import check_exists, open_store, plain_engine

SUMMARY = "let a device that is left out of a stream be admitted again"
EXAMPLES = """examples:
  hushmq calibrator readmit --config calibrator.toml --stream motion --device wearable-7

Repair the device first: if its data contradicts the others' again, it is left out again.
What it has lost is not taken back. Also while the calibrator runs."""


def configure(command: argparse.ArgumentParser) -> None:
    command.epilog = EXAMPLES
    where = command.add_mutually_exclusive_group(required=True)
    where.add_argument("--config", type=Path, metavar="FILE", help="the calibrator's settings file")
    where.add_argument("--database", metavar="URL", help="the database itself")
    command.add_argument("--stream", required=True, metavar="NAME", help="the stream")
    command.add_argument("--device", required=True, metavar="NAME", help="the device")


def run(args: argparse.Namespace) -> int:
    """Readmit the device; Problem if it is not left out."""
    url = args.database or load(args.config).database
    check_exists(plain_engine(url))
    engine = open_store(url)
    try:
        with engine.begin() as db:
            if not readmit(db, args.stream, args.device):
                others = ", ".join(left_out(db, args.stream)) or "nobody"
                raise Problem(f"--device: {args.device!r} is not left out of {args.stream}; {others} is")
    finally:
        engine.dispose()
    print(f"{args.device} is admitted to {args.stream} again with its next batch")
    return 0
