"""The histories that pricing is timed on."""

from __future__ import annotations

import pytest

from hushmq.evaluation.benchmarks import pricing_speed
from hushmq.evaluation.benchmarks.pricing_speed import HISTORIES, windows
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_units


def runs(name: str) -> int:
    pieces = [(one.first, one.last, to_units(one.tau0), to_units(one.tau1)) for one in HISTORIES[name](0.1)]
    return len(TiltRuns(pieces).tilts)


def test_no_windows_become_one_run() -> None:
    """What is timed has as many runs as its name says, and gaps between equal windows."""
    assert [runs(name) for name in HISTORIES] == [2, 100, 2 * 10_000 - 1, 10_000]


def test_rows_name_the_slowest_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the times of all of them beside it."""
    seconds = iter([0.001, 0.002, 0.003, 0.004, 0.001, 0.001])

    def timed(work, **_: object):
        return next(seconds), work()

    monkeypatch.setattr(pricing_speed, "fastest", timed)
    chains = {"quick": BinaryTheta.point(0.3, 0.3), "slow": BinaryTheta.point(0.1, 0.1)}
    rows = list(pricing_speed._slowest("x", "prior", chains, lambda tau: windows(2, tau), (50, 5)))
    assert [(row.name, row.value, row.against) for row in rows] == [
        ("x: from scratch", 4.0, "slow is the slowest of 1, 4 ms"),
        ("x: one more at the end", 2.0, "quick is the slowest of 2, 1 ms"),
        ("x: in the middle", 3.0, "quick is the slowest of 3, 1 ms"),
    ]
    assert [row.aim for row in rows] == ["≤ 50 ms", "≤ 5 ms", "≤ 5 ms"]
