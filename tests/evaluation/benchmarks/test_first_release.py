"""The memory of an idle agent is measured. The other half, a fresh clone, installs everything and is run by hand."""

from __future__ import annotations

import pytest

from hushmq.evaluation.benchmarks.first_release import idle_agent


@pytest.mark.slow
def test_an_idle_agent_is_weighed_beside_the_interpreter() -> None:
    """An agent that waits for its first setting uses more memory than the interpreter alone; the aim is stated."""
    (row,) = idle_agent()
    assert row.value is not None
    assert row.ratio is not None
    assert row.ratio > 1.0
    assert row.aim == "≤ 48 MB"
