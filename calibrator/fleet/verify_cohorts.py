"""Verifies the ledgers of a fleet's cohorts, as `hushmq ledger verify` does for one."""

from __future__ import annotations

from hushmq.calibrator.calibrator_config import Config
from hushmq.calibrator.ledger.ledger_report import streams
from hushmq.calibrator.ledger.verify_ledger import verify
from hushmq.calibrator.store.open_database import open_to_read, reading


def verify_cohort(config: Config) -> list[str]:
    """What is wrong with the ledgers of one cohort; an empty list when all are right."""
    with reading(open_to_read(config.database)) as db:
        return [
            f"{check.stream}: {check.name}: {check.detail}"
            for stream in streams(db, None)
            for check in verify(db, stream, config.mark_path, config.keys.trusted)
            if not check.passed
        ]
