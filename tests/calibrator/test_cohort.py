"""What is said about a cohort is durable."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from hushmq.calibrator.ingest import counted_rows
from hushmq.calibrator.store import tables as store
from tests.calibrator.site import (
    START,
    desk,
    from_device,
    sqlite,
)


@pytest.mark.slow
def test_seen_tells_only_what_is_durable_and_again_after_a_restart(tmp_path: Path) -> None:
    """What `seen` says is what another process finds in the database."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.cohort.receive([from_device("d", START - 30, [0, 1, 1])])
        said = here.seen("d")
        with desk(sqlite(tmp_path)) as other:
            assert other.seen("d") == said
            assert other.cohort.devices() == {"d"}
    assert said.streams["motion"].highest == START - 28


def test_a_group_that_cannot_be_committed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting is all or nothing: an error in the middle of a group takes the whole group back."""

    def fail(_: str) -> None:
        raise RuntimeError("in the middle")

    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        with monkeypatch.context() as patch:
            patch.setattr(counted_rows, "_added_tally", fail)
            with pytest.raises(RuntimeError):
                here.cohort.receive([from_device("d", START, [1])])
        assert here.cohort.devices() == set()
        with here.engine.begin() as db:
            assert db.execute(select(store.batch)).all() == []
