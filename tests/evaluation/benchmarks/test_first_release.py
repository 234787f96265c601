"""What an idle agent weighs is measured. The other half, a fresh clone, installs everything and is run by hand."""

from __future__ import annotations

from hushmq.evaluation.benchmarks.first_release import idle_agent


def test_an_idle_agent_is_weighed_beside_the_interpreter() -> None:
    """Connected and waiting for its first setting it weighs more than the interpreter alone; the aim is stated."""
    (row,) = idle_agent()
    assert row.value is not None
    assert row.ratio is not None
    assert row.ratio > 1.0
    assert row.aim == "≤ 40 MB"
