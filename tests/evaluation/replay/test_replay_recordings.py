"""The recordings as a cohort through the real broker: a short replay, and the page it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.evaluation.replay.replay_page import comparisons, write
from hushmq.evaluation.replay.replay_recordings import agreement, run_replay
from hushmq.evaluation.replay.replay_site import ReplayPlan, read
from tests.recordings import DATA, needs_data


class TestReplay:
    """Three sleepers for some seconds."""

    pytestmark = needs_data

    @pytest.mark.slow
    def test_what_is_released_is_about_the_recordings(self, tmp_path: Path) -> None:
        """Sanitized states go with the lines of their recording, releases with the truth, and the ledger is right."""
        sleepers = read(DATA / "meditation" / "normal_N1-N11.csv.gz")[:3]
        assert [one.name for one in sleepers] == ["n1", "n2", "n3"]
        result = run_replay(sleepers, ReplayPlan(ticks=1_500, period_ms=4, window=500), lambda _: None)
        assert result.verified
        for sleeper in sleepers:
            seen, expected = agreement(result, sleeper)
            assert seen == pytest.approx(expected, abs=0.06)
        windows = comparisons(result, "cohort")
        assert windows
        for one in windows:
            assert abs(one.off) < 5 * one.release.standard_errors[1]
        assert result.ledger["public"]["loss"] <= result.ledger["public"]["budget"]
        page = tmp_path / "replay.md"
        write(result, page)
        assert "| N3 |" in page.read_text(encoding="utf-8")
        assert (tmp_path / "replay.png").stat().st_size > 10_000


def test_recordings_that_are_not_there_are_named(tmp_path: Path) -> None:
    """One line that names the option."""
    with pytest.raises(Problem, match="--data: "):
        read(tmp_path / "nothing.csv.gz")
