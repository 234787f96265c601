"""The benchmark of a fleet measures what its rows say."""

from __future__ import annotations

import pytest

from hushmq.evaluation.benchmarks.fleet_speed import run
from tests.calibrator import postgres


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_workers_after_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows for each number of workers, from messages that were seen; the ratio is to one worker."""
    postgres.require()
    monkeypatch.setattr("hushmq.evaluation.benchmarks.fleet_speed.BEAT_S", 0.5)
    rows = list(run(cohorts=2, devices=2, seconds=2.0, workers=(1, 2)))
    assert [row.name.split(":")[0] for row in rows] == ["1 worker"] * 3 + ["2 workers"] * 3
    assert all(row.value is not None and row.value >= 0 for row in rows)
    assert rows[0].ratio == 1.0
    assert rows[3].value is not None
    assert rows[3].value > 0
    assert "samples" in rows[1].against
