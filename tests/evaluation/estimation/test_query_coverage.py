"""The simulation of answers to queries: intervals hold as stated, and narrower ones do not."""

from __future__ import annotations

import pytest

from hushmq.calibrator.models import pair_count, window_parts
from hushmq.evaluation.estimation.query_coverage import SCENARIOS, coverage
from hushmq.pufferfish.inference.half_width import half_width


@pytest.mark.slow
def test_intervals_hold_and_narrower_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 120 windows of four states with much noise, where the bounds are tight; lines are four deviations away."""
    found = coverage(SCENARIOS[-1], 120, 1)
    assert all(one > 0.86 for one in (found.mean, found.shares_up_to, found.quantile, found.transitions))
    assert found.sliding > 0.75  # of 20 sliding windows

    def narrower(*variances: float, bias: float = 0.0) -> float:
        return 0.45 * half_width(*variances, bias=bias)

    for module in (pair_count, window_parts):
        monkeypatch.setattr(module, "half_width", narrower)
    loose = coverage(SCENARIOS[-1], 120, 1)
    assert all(one < 0.8 for one in (loose.mean, loose.shares_up_to, loose.transitions))
