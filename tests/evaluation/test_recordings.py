"""The recordings are cut where they must be, and give the chains that were published."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from hushmq.evaluation import recordings
from hushmq.evaluation.section_list import Job, Missing
from tests.pufferfish import real_chains
from tests.recordings import DATA, needs_data


def job(data: Path) -> Job:
    return Job("test", True, 1, data, lambda share, doing: None)


def test_pieces_end_where_rows_do_not_follow(tmp_path: Path) -> None:
    """A gap, a missing label and a change of subject each end a piece."""
    path = tmp_path / recordings.EXTRASENSORY
    path.parent.mkdir()
    lines = ["a,60,0", "a,120,1", "a,600,1", "a,660,-1", "a,720,2", "b,780,3", "b,840,3"]
    path.write_bytes(gzip.compress("\n".join(["subject,ts_unix,state", *lines]).encode()))
    a, b = recordings.people(job(tmp_path))
    assert [piece.tolist() for piece in a.pieces] == [[0, 1], [1], [2]]
    assert list(a.starts) == [1, 10, 12]
    assert [piece.tolist() for piece in b.pieces] == [[3, 3]]
    assert (a.length, a.longest) == (4, 2)


def test_minutes_that_were_filled_in_end_a_piece(tmp_path: Path) -> None:
    """Imputed rows are left out, and the last level is open."""
    path = tmp_path / recordings.POWER
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"watt,imputed\n199,0\n200,0\n500,1\n99999,0\n"))
    house = recordings.household(job(tmp_path))
    assert [piece.tolist() for piece in house.pieces] == [[0, 1], [50]]
    assert list(house.starts) == [0, 3]


def test_a_missing_recording_is_named(tmp_path: Path) -> None:
    """Where a file is absent, its name and the option that helps are said."""
    with pytest.raises(Missing, match=r"extrasensory.* --data"):
        recordings.people(job(tmp_path))


class TestReal:
    """On the real files."""

    pytestmark = needs_data

    @pytest.mark.slow
    def test_chains(self) -> None:
        """The chains are those counted independently, and N10's q and r are CGSSY's."""
        beats = recordings.sleepers(job(DATA))
        ten = next(one for one in beats if one.subject == "N10")
        assert ten.length == 26_923
        P = recordings.fitted([ten]).transition
        assert (P[0, 1], P[1, 0]) == pytest.approx((0.0893, 0.1092), abs=1e-4)
        for ours, theirs in (
            (recordings.people(job(DATA)), real_chains.activity()),
            ([recordings.room(job(DATA))], real_chains.occupancy()),
        ):
            assert np.allclose(recordings.fitted(ours).transition, theirs.transition)
