"""Open a ledger: what a calibrator has charged, what is left of each budget, and whether the books are right.

    python examples/open_a_ledger.py /var/lib/hushmq-calibrator/ledger.db

A PostgreSQL database is named by its URL. The ledger is only read; the calibrator may go on working.
It needs the calibrator's libraries: pip install 'hushmq[calibrator]'.
"""

from __future__ import annotations

import argparse
import sys

from hushmq import Ledger, Problem


def main() -> int:
    parser = argparse.ArgumentParser(description="Show and verify the ledger of a calibrator.")
    parser.add_argument("database", help="a SQLite file, or postgresql+psycopg://…")
    args = parser.parse_args()

    with Ledger(args.database) as ledger:
        for stream in ledger.streams():
            accounts = ledger.accounts(stream)
            # Two audiences: the operator reads every sanitized state, the public only releases.
            for audience, account in (("operator", accounts.operator), ("public", accounts.public)):
                print(
                    f"{stream}: {audience}: loss {account.loss:.4f}, budget {account.budget}, left {account.left}"
                )
            for entry in ledger.entries(stream)[-5:]:
                print(
                    f"  {entry.at}  {entry.window}/{entry.scope}  {entry.first}…{entry.last}  {entry.tilt:.6f}"
                )
        # Everything is recomputed from the entries: the chain of digests, each stored release, both budgets.
        wrong = [check for check in ledger.verify() if not check.passed]
        for check in wrong:
            print(f"WRONG  {check.stream}: {check.name}: {check.detail}")
        print("the ledger is WRONG" if wrong else "the ledger is right")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Problem as problem:  # no such file, no ledger in it, a library missing
        sys.exit(str(problem))
