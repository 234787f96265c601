"""A power cut at every moment: what was said to others before it is kept, whatever of the unsynced is lost.

HUSHMQ_POWER_CUT_TIMES makes the processes work for longer (`make power-cut`).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from hushmq.agent.storage.outbox import Outbox
from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.ledger.verify_ledger import verify
from hushmq.calibrator.store import tables as store
from tests.calibrator.site import STREAM, Clock, Desk, desk, sqlite
from tests.power_cut import device_storage
from tests.power_cut.recorded_disk import Action, build, cuts, record

TIMES = int(os.environ.get("HUSHMQ_POWER_CUT_TIMES", "1"))
FAST = Path("/dev/shm")  # noqa: S108
"""What a disk would hold is written to memory: it is read again at once."""


def recorded(module: str, folder: Path, amount: int) -> list[Action]:
    library = build(folder)
    if library is None:
        pytest.skip("no C compiler to build the recorder of writes with")
    return record(library, module, folder / "root", str(amount))


def check_device(actions: list[Action], root: Path) -> int:
    """Cut at every moment, and return how many were tried."""
    tried = 0
    with TemporaryDirectory(dir=FAST if FAST.is_dir() else None) as name:
        for moment, folder, said in cuts(actions, root, Path(name) / "disk"):
            if not (folder / "device").is_dir():
                assert not said, moment
                continue
            tried += 1
            outbox = device_storage.opened(folder / "device")
            try:
                check_outbox(outbox, [json.loads(line) for line in said], moment)
            finally:
                outbox.close()
    return tried


def check_outbox(outbox: Outbox, said: list[dict[str, int]], moment: str) -> None:
    sent = [line for line in said if "first" in line]
    counted = max((line["counted"] for line in said if "counted" in line), default=-1)
    assert outbox.set_aside is None, moment
    if not sent:
        return
    balance = outbox.balances.get(device_storage.STREAM)
    assert balance is not None, moment
    assert balance.watermark >= sent[-1]["last"], moment
    assert balance.dropped == 0, moment
    waiting = {one.payload for one in outbox.page(0, 10_000)}
    lost = [
        one["first"]
        for one in sent
        if one["last"] > counted and device_storage.payload_of(one["first"]) not in waiting
    ]
    assert lost == [], moment
    assert balance.sampled - balance.buffered <= max(0, counted - 99), moment


def check_calibrator(actions: list[Action], root: Path, every: int) -> int:
    """Cut at every so many moments, and return how many were tried."""
    tried = 0
    with TemporaryDirectory(dir=FAST if FAST.is_dir() else None) as name:
        for number, (moment, folder, said) in enumerate(cuts(actions, root, Path(name) / "disk")):
            if not said or number % every:
                continue
            tried += 1
            here = folder / "calibrator"
            with desk(sqlite(here), clock=Clock(), mark_path=here / "mark") as one:
                check_ledger(one, here / "mark", [json.loads(line) for line in said], moment)
    return tried


def check_ledger(here: Desk, mark: Path, said: list[dict[str, Any]], moment: str) -> None:
    assert here.cohort.stopped == {}, moment
    with here.engine.begin() as db:
        held = {row.entry: row.payload for row in db.execute(select(store.release))}
        entries = len(db.execute(select(store.ledger.c.id)).all())
        assert [check for check in verify(db, STREAM, mark) if not check.passed] == [], moment
    seen = max((line["seen"] for line in said if "seen" in line), default=-1)
    if seen >= 0:
        counted = here.seen("d0").streams.get(STREAM)
        assert counted is not None, moment
        assert counted.highest >= seen, moment
    for line in said:
        if "release" in line:
            assert held.get(line["release"]) == line["payload"].encode(), moment
        assert entries >= line.get("entries", 0), moment


def test_no_power_cut_lets_a_device_use_a_tick_again(tmp_path: Path) -> None:
    """After a cut at any write or sync the outbox opens by itself, is above every tick that left, and holds every batch
    that left and was not counted, with the same bytes; sampled = counted + buffered + dropped.

    Were its log not synced, this would be noticed.
    """
    actions = recorded("tests.power_cut.device_storage", tmp_path, 16 * TIMES)
    assert check_device(actions, tmp_path / "root") > 100 * TIMES
    with pytest.raises(AssertionError, match="lost"):
        check_device(without_syncs(actions, "outbox.db-wal"), tmp_path / "root")


def test_no_power_cut_gives_a_budget_back(tmp_path: Path) -> None:
    """After a cut the database opens and goes on: what was said to be counted is, every release that left has its debit
    and its bytes, the ledger is right, and its mark stops nothing.

    Were its log not synced, this would be noticed.
    """
    actions = recorded("tests.power_cut.calibrator_storage", tmp_path, 3 * TIMES)
    assert check_calibrator(actions, tmp_path / "root", every=9 if TIMES == 1 else 2) > 20 * TIMES
    with pytest.raises((AssertionError, Problem, SQLAlchemyError)):
        check_calibrator(without_syncs(actions, "ledger.db-wal"), tmp_path / "root", every=3)


def without_syncs(actions: list[Action], name: str) -> list[Action]:
    """What a process would have done that does not sync a file."""
    return [one for one in actions if one.kind != "S" or Path(one.path).name != name]
