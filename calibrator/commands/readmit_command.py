"""`hushmq calibrator readmit`: let a device that is left out be admitted again, with its next batch."""

from __future__ import annotations

import argparse

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.fleet_config import load
from hushmq.calibrator.roster.left_out import left_out, readmit
from hushmq.calibrator.store.open_database import check_exists, open_store, plain_engine


def run(args: argparse.Namespace) -> int:
    """Readmit the device; Problem if it is not left out."""
    url = args.database or load(args.config, args.cohort).database
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
