"""What grows with time: a simulated year of weekly windows, table by table; and what was predicted of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from sqlalchemy import Connection, func, select

from hushmq.broker.contract.policy_message import Window
from hushmq.calibrator.store import tables as store
from hushmq.capacity.capacity_plan import Wanted, capacity
from hushmq.capacity.measure_windows import table_bytes
from hushmq.capacity.stream_load import of_policy
from hushmq.capacity.unit_costs import published_costs
from tests.calibrator.site import STREAM, Desk, desk, from_device, policy, sqlite, states

WEEKS, TICKS, TICK_S = 52, 28, 21_600
"""Weekly windows of ticks of six hours."""
FIRST = 2_400 * TICKS
DEVICES = ("d0", "d1", "d2")
YEARLY = policy(period_ms=TICK_S * 1000, windows={"week": Window(ticks=TICKS, scopes=("cohort", "device"))})
GROWING = {"ledger", "release"}
PER_DEVICE = {"accounted", "tally", "roster", "learned_theta", "pending", "statistic"}


def rows(db: Connection) -> dict[str, int]:
    """How many rows each table has."""
    return {
        table.name: db.execute(select(func.count()).select_from(table)).scalar_one()
        for table in store.metadata.sorted_tables
    }


def week(here: Desk, number: int) -> None:
    """Each device sends two batches; of one of them every other batch is lost for ever, and the next one says so."""
    first, half = FIRST + number * TICKS, TICKS // 2
    here.clock.tick = float((first + TICKS) * TICK_S + 2)
    sent = []
    for seed, device in enumerate(DEVICES):
        for start in (first, first + half):
            lost = device == "d2" and start == first and number > 0
            before = start - 1 - (half if device == "d2" and number > 0 else 0)
            if not lost:
                sent.append(from_device(device, start, states(half, seed=number * 3 + seed), after=before))
    here.cohort.receive(sent)
    here.cohort.close_due()
    here.cohort.calibrate()
    here.cohort.calibrate_devices()
    here.cohort.mark_sent(here.cohort.unsent())


@dataclass(frozen=True, slots=True)
class Year:
    """Rows after a half and after a whole year, and the size of what grows."""

    half: dict[str, int]
    whole: dict[str, int]
    release_bytes: int
    entry_bytes: int


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Year]:
    url = sqlite(tmp_path_factory.mktemp("year"))
    half: dict[str, int] = {}
    with desk(url) as here:
        here.adopt(YEARLY)
        for number in range(WEEKS):
            week(here, number)
            if number + 1 == WEEKS // 2:
                with here.engine.connect() as db:
                    half = rows(db)
        with here.engine.connect() as db:
            yield Year(half, rows(db), table_bytes(db, "release"), table_bytes(db, "ledger"))


@pytest.mark.slow
def test_only_entries_and_releases_grow(year: Year) -> None:
    """In the second half of a year no other table gains a row; entries and releases gain as many as in the first."""
    gained = {name: year.whole[name] - year.half[name] for name in year.whole}
    assert {name for name, count in gained.items() if count > 0} == GROWING
    assert {name: year.whole[name] for name in GROWING} == {"ledger": 2 * WEEKS, "release": 4 * WEEKS}
    assert {name: gained[name] for name in GROWING} == {"ledger": WEEKS, "release": 2 * WEEKS}
    assert all(year.whole[name] <= 3 * (len(DEVICES) + 1) for name in PER_DEVICE)
    assert year.whole["accounted"] == len(DEVICES)


@pytest.mark.slow
def test_what_was_predicted_came(year: Year) -> None:
    """Rows as counted; bytes on disk within a quarter, as names and pages differ."""
    wanted = Wanted(len(DEVICES), 1, [of_policy(STREAM, YEARLY.streams[STREAM])], 3_600_000, "nats", "sqlite")
    found, costs = capacity(wanted, published_costs()), published_costs().databases["sqlite"]
    assert found.entries_per_day * 7 * WEEKS == pytest.approx(year.whole["ledger"])
    assert found.releases_per_day * 7 * WEEKS == pytest.approx(year.whole["release"])
    assert costs.release_bytes * year.whole["release"] == pytest.approx(year.release_bytes, rel=0.25)
    assert costs.entry_bytes * year.whole["ledger"] == pytest.approx(year.entry_bytes, rel=0.25)
