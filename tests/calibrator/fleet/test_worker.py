"""A worker serves many cohorts: what fails in one stops none of the others."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from hushmq.broker.provision.broker_process import BrokerProcess, free_port
from hushmq.broker.service.log import logger
from hushmq.calibrator.fleet import worker as worker_module
from hushmq.calibrator.fleet.cohort_tables import create_cohort
from hushmq.calibrator.fleet.worker import Worker
from hushmq.calibrator.fleet_config import load_fleet
from hushmq.calibrator.serve_cohort import ServedCohort
from tests.calibrator.conftest import PostgresDatabases
from tests.calibrator.fleet.fleet_site import Fleet
from tests.calibrator.site import wait_until


def test_a_cohort_that_fails_stops_no_other(
    postgres_databases: PostgresDatabases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its start or at a turn: it is given up and said once, by the class of the error; the other has its turns."""
    url = postgres_databases.fresh()
    nobody = cast("BrokerProcess", SimpleNamespace(port=free_port("127.0.0.1")))
    fleet = Fleet(tmp_path, nobody, url, cohorts=3)
    for cohort in fleet.cohorts:
        create_cohort(url, cohort)
    (tmp_path / "marks").mkdir()
    turns = dict.fromkeys(fleet.cohorts, 0)

    def turn(served: ServedCohort, *_: object, **__: object) -> None:
        name = served.cohort.topics.cohort
        turns[name] += 1
        if name == "c1":
            raise ZeroDivisionError("of a secret 0.7312")

    def begin(served: ServedCohort) -> None:
        if served.cohort.topics.cohort == "c2":
            raise OverflowError("of a secret 0.7312")

    monkeypatch.setattr(ServedCohort, "turn", turn)
    monkeypatch.setattr(ServedCohort, "begin", begin)
    monkeypatch.setattr(worker_module, "FAILED_S", 0.1)
    said = io.StringIO()
    worker = Worker(load_fleet(fleet.config(0)), log=logger("info", "json", said))
    running = threading.Thread(target=worker.run)
    running.start()
    try:
        wait_until(lambda: turns["c1"] > 2 and turns["c0"] > 2)
    finally:
        worker.stop()
        running.join(30)
    found = [json.loads(line) for line in said.getvalue().splitlines()]
    failed = {one["cohort"]: one["why"] for one in found if one["event"] == "cohort_failed"}
    assert failed == {"c1": "ZeroDivisionError", "c2": "OverflowError"}
    assert "7312" not in said.getvalue()
