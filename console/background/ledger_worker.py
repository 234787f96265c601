"""The process of a background job: reads a request from standard input, and prints one JSON object a line.

It has the calibrator's mathematics, which the console itself does not load.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.ledger.ledger_report import streams
from hushmq.calibrator.ledger.verify_ledger import verify
from hushmq.console.activity.verify_log import verify_log
from hushmq.console.background.evidence import gather_evidence
from hushmq.console.store.read_only_database import ReadOnlyDatabase


def _verify(db: Connection, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Recompute every stream's ledger from its entries, and the console's log beside it."""
    mark = Path(request["mark"]) if request["mark"] else None
    names = streams(db)
    yield {"streams": [*names, "log"]}
    for name in names:
        for check in verify(db, name, mark, progress=lambda share: _say({"part": share})):
            yield asdict(check)
        yield {"done": name}
    for one in verify_log(Path(request["log"]), db):
        yield {"stream": "log", **asdict(one)}
    yield {"done": "log"}


JOBS = {"verify": _verify, "evidence": gather_evidence}


def main() -> int:
    request = json.load(sys.stdin)
    database = ReadOnlyDatabase(request["database"])
    try:
        database.read_here(lambda db: _print_all(JOBS[request["job"]](db, request)))
    except Problem as problem:
        print(json.dumps({"problem": str(problem)}), flush=True)
        return 2
    finally:
        database.close()
    return 0


def _print_all(lines: Iterator[dict[str, Any]]) -> None:
    """Print each line as soon as it is known."""
    for one in lines:
        _say(one)


def _say(one: dict[str, Any]) -> None:
    print(json.dumps(one, allow_nan=False), flush=True)


if __name__ == "__main__":
    sys.exit(main())
