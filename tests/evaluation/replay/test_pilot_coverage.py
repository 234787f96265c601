"""The table of what it costs to cover people who were not recorded."""

from __future__ import annotations

import pytest

from hushmq.evaluation.replay import pilot_coverage
from hushmq.evaluation.replay.pilot_coverage import pilot_theta
from tests.hushmq.plan.test_pilot_margin import PILOT, person


def test_the_recorded_ones_alone_are_a_part_of_any_wider_theta() -> None:
    """With a coverage three chains are added, at the bounds."""
    alone, wider = pilot_theta(PILOT, 0.0), pilot_theta(PILOT, 0.9)
    assert wider.contains(alone)
    assert len(wider.members) == len(alone.members) + 3


@pytest.mark.slow
def test_a_row_has_errors_and_who_of_the_unseen_is_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wider Θ has a larger error and covers the one who is slower than the pilot, at least as well."""
    fits = dict(zip(("a", "b", "c", "d"), (*PILOT[:3], person(400, 0.1, 1.8)), strict=True))
    monkeypatch.setattr(pilot_coverage, "FIRST_PILOT", ("a", "b", "c"))
    monkeypatch.setattr(pilot_coverage, "SIZES", (3,))
    monkeypatch.setattr(pilot_coverage, "COVERAGES", (0.0, 0.9))
    alone, wider = pilot_coverage._priced_pilots(fits, 2_000)
    assert alone[:2] == ("3", "recorded only")
    assert wider[:2] == ("3", "0.9")
    assert float(alone[4]) < float(wider[4])
    assert alone[-2] == "0, 0 of 1"
    assert wider[-2] == "1, 1 of 1"
