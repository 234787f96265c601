"""The recordings as a cohort through the real broker: a short replay, and the page it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.evaluation.replay import replay_site
from hushmq.evaluation.replay.pilot_coverage import FIRST_PILOT
from hushmq.evaluation.replay.replay_page import comparisons, write
from hushmq.evaluation.replay.replay_recordings import agreement, run_replay
from hushmq.evaluation.replay.replay_site import LARGER, ReplayPlan, planned, read
from tests.recordings import DATA, needs_data


class TestReplay:
    """Three sleepers for some seconds."""

    pytestmark = needs_data

    @pytest.mark.slow
    @pytest.mark.timeout(300)
    def test_what_is_released_is_about_the_recordings(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Sanitized states go with the lines of their recording, releases with the truth, and the ledger is right.

        Both with a stride, from the stream, and with every tick, by devices.
        """
        monkeypatch.setattr(replay_site, "GRACE_S", 8.0)
        recordings = read(DATA / "meditation" / "normal_N1-N11.csv.gz")
        sleepers = [one for one in recordings if one.name in FIRST_PILOT]
        results = []
        for per_device in (True, False):
            stream, said = planned(
                tmp_path,
                sleepers,
                500,
                LARGER,
                per_device=per_device,
                period_ms=4,
                pilots=FIRST_PILOT,
            )
            assert any(line.startswith("Θ is 12 chains of 2 regimes") for line in said)
            assert any(line.startswith("a new person is covered with a probability of 0.95") for line in said)
            result = run_replay(sleepers, ReplayPlan(stream, ticks=1_000, window=500), lambda _: None)
            assert result.verified
            for sleeper in sleepers:
                seen, expected = agreement(result, sleeper)
                assert seen == pytest.approx(expected, abs=0.08)
            windows = comparisons(result, "cohort")
            assert windows
            for one in windows:
                assert abs(one.off) < 6 * one.release.standard_errors[1]
            assert result.ledger["public"]["loss"] <= result.ledger["public"]["budget"]
            results.append(result)
        page = tmp_path / "replay.md"
        by_devices, of_cohort = results
        write(by_devices, of_cohort, {"device": ["a plan"], "cohort": ["another"]}, "a table", page)
        assert "| N5 (pilot) |" in page.read_text(encoding="utf-8")
        assert (tmp_path / "replay.png").stat().st_size > 10_000


def test_recordings_that_are_not_there_are_named(tmp_path: Path) -> None:
    """One line that names the option."""
    with pytest.raises(Problem, match="--data: "):
        read(tmp_path / "nothing.csv.gz")
