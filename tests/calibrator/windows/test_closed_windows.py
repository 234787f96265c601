"""Counted states are kept as long as a window needs them, and no longer."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import func, select

from hushmq.broker.contract.policy_message import DeviceWindow
from hushmq.calibrator.store import tables as store
from tests.calibrator.site import STREAM, desk, policy, sqlite


def test_states_that_no_window_needs_are_deleted(tmp_path: Path) -> None:
    """A stream without windows keeps an hour of counted states, and every account of them."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows={}, device_windows={"own": DeviceWindow(ticks=60, scale=40.0)}))
        for number in range(6):
            here.window(number, ticks=1_200)
            here.cohort.close_due()
        with here.engine.connect() as db:
            firsts = db.execute(select(store.batch.c.first).distinct()).scalars().all()
            counted = db.execute(select(func.sum(store.tally.c.counted))).scalar()
        assert len(firsts) == 4
        assert counted == 6 * 1_200 * 3
        assert here.seen("d0").streams[STREAM].holes == ((0, min(firsts) - 2 * 1_200 - 1),)
