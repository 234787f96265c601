"""Starts the workers of a process, one after another: after a reload, and when the database is back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.fleet.cohort_tables import create_cohort
from hushmq.calibrator.fleet.worker import Worker
from hushmq.calibrator.fleet_config import FleetConfig


class StartWorker:
    """Makes a worker; cohorts that its settings name and the database does not have are added."""

    def __init__(self, load: Callable[[], FleetConfig]) -> None:
        self._load = load

    def __call__(
        self,
        config: FleetConfig,
        *,
        log: FilteringBoundLogger,
        reopening: bool,
        on_working: Callable[[], None],
    ) -> Worker:
        if config.mark_folder is not None and not reopening:
            _make_folder(config.mark_folder)
        for cohort in config.named:
            create_cohort(config.database, cohort, reopening=reopening)
        return Worker(config, log=log, reload=self._load, reopening=reopening, on_working=on_working)


def _make_folder(path: Path) -> None:
    """Make the folder of the marks where it is missing; Problem when that is not possible."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Problem(f"mark_folder: {path}: {error.strerror}") from None
