"""The arithmetic of capacity, held against what a real cohort and real messages take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from hushmq.broker.contract.messages import Seen, encode
from hushmq.broker.contract.policy_message import Window
from hushmq.calibrator.store import tables as store
from hushmq.capacity.breaking_points import breaking_points
from hushmq.capacity.capacity_plan import Wanted, capacity
from hushmq.capacity.stream_load import ACKNOWLEDGED, DEVICE, StreamLoad, daily, of_policy
from hushmq.capacity.unit_costs import DatabaseCosts, UnitCosts, from_tree, published_costs
from tests.calibrator.site import START, STREAM, TOPICS, batch, desk, from_device, policy, sqlite, states

BOTH = {"short": Window(ticks=20, scopes=("cohort", "device")), "long": Window(ticks=40)}


def wanted(**changes: Any) -> Wanted:
    stream = StreamLoad("motion", ("still", "moving"), 10_000, 1, {"w": Window(ticks=90)})
    return replace(Wanted(1_000, 1, [stream], 10_000, "nats", "sqlite"), **changes)


def test_rows_are_those_that_a_cohort_writes(tmp_path: Path) -> None:
    """Two windows of two lengths and scopes, three devices: entries and releases as predicted, to the row."""
    message = policy(windows=BOTH)
    with desk(sqlite(tmp_path)) as here:
        here.adopt(message)
        for number in range(4):
            here.window(number)
            here.cohort.close_due()
        with here.engine.connect() as db:
            entries, releases = (
                db.execute(select(func.count()).select_from(table)).scalar_one()
                for table in (store.ledger, store.release)
            )
    load = of_policy(STREAM, message.streams[STREAM])
    found = daily([load], devices=3, cohorts=1, beat_ms=10_000)
    share = 80 / 86_400  # four windows of 20 s
    assert (found.entries * share, found.releases * share) == pytest.approx((entries, releases))


def test_bytes_are_those_of_real_messages(tmp_path: Path) -> None:
    """A batch and its `seen` as they are encoded: within a tenth, as ticks have other numbers of digits."""
    load = of_policy(STREAM, policy(windows=BOTH).streams[STREAM])
    found = daily([load], devices=1, cohorts=1, beat_ms=10_000)
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows=BOTH))
        here.cohort.receive([from_device(DEVICE, START, states(10))])
        seen: Seen = here.cohort.seen(DEVICE)
    sent = len(batch(START, states(10), after=START - 1)) + len(TOPICS.batch(DEVICE, STREAM)) + 6
    answered = len(encode(seen)) + len(TOPICS.seen(DEVICE)) + 6
    assert found.batches == 8_640
    assert found.wire_bytes / found.batches == pytest.approx(
        2 * (sent + answered + 2 * ACKNOWLEDGED), rel=0.1
    )


def test_everything_scales_with_devices() -> None:
    """Twice the devices in twice the cohorts take twice of all but a process's own memory."""
    costs = published_costs()
    one = capacity(wanted(cohorts=10), costs).as_tree()
    two = capacity(wanted(devices=2_000, cohorts=20), costs).as_tree()
    same = {"calibrator_cores_of_a_cohort", "window_close_s", "shortest_window_s"}
    for name, value in one.items():
        if name != "calibrator_memory_bytes":
            assert two[name] == pytest.approx(value if name in same else 2 * value), name


@pytest.mark.parametrize(
    ("cost", "figure"),
    [
        ("batch_s", "calibrator_cores"),
        ("turn_s", "calibrator_cores"),
        ("state_s", "calibrator_cores"),
        ("window_s", "calibrator_cores"),
        ("window_device_s", "window_close_s"),
        ("release_s", "calibrator_cores"),
        ("server_batch_s", "database_cores"),
        ("server_turn_s", "database_cores"),
        ("server_release_s", "database_cores"),
        ("entry_bytes", "entry_bytes_per_year"),
        ("release_bytes", "release_bytes_per_year"),
        ("release_state_bytes", "archived_bytes_per_year"),
        ("batch_bytes", "bounded_bytes"),
        ("device_bytes", "bounded_bytes"),
    ],
)
def test_no_cost_is_forgotten(cost: str, figure: str) -> None:
    """Each unit cost that rises raises the figure that it is for."""
    each = StreamLoad("s", "abc", 10_000, 1, {"w": Window(ticks=90, scopes=("cohort", "device"))})
    asked, costs = wanted(streams=[each]), published_costs()
    database = costs.databases["sqlite"]
    dearer = replace(database, **{cost: getattr(database, cost) + 1.0})
    more = replace(costs, databases={"sqlite": dearer})
    if figure == "window_close_s":
        asked = wanted()
    assert getattr(capacity(asked, more), figure) > getattr(capacity(asked, costs), figure)


def _alone(**changes: float) -> UnitCosts:
    """Costs of nothing but what is named."""
    nothing = dict.fromkeys(DatabaseCosts.__slots__, 0.0)
    costs = published_costs()
    return replace(costs, databases={"sqlite": DatabaseCosts(**(nothing | changes))})


def test_figures_by_hand() -> None:
    """A thousand devices, a batch every ten seconds, a quarter of an hour: reckoned on paper."""
    found = capacity(wanted(), _alone(batch_s=1e-3, turn_s=1e-2, entry_bytes=300.0, release_bytes=1_000.0))
    assert found.batches_per_s == pytest.approx(100.0)
    assert found.broker_messages_per_s == pytest.approx(200 + 96 / 86_400)
    assert found.calibrator_cores == pytest.approx(100 * 1e-3 + 2 * 1e-2)
    assert (found.entries_per_day, found.releases_per_day) == pytest.approx((96, 96))
    assert found.entry_bytes_per_year == pytest.approx(365 * 96 * 300)
    assert found.bounded_bytes == pytest.approx(256 * 1_000 + 1_000 * 90)
    each = StreamLoad("s", "ab", 10_000, 5, {"w": Window(ticks=90, scopes=("device",))})
    thinned = capacity(wanted(streams=[each]), _alone(batch_s=1e-3))
    assert thinned.batches_per_s == pytest.approx(20.0)
    assert thinned.releases_per_day == pytest.approx(96_000)


def test_what_breaks_first_follows_from_what_is_asked() -> None:
    """One cohort of too many devices, too many connections, too many releases: each is named."""
    costs = published_costs()

    def first(asked: Wanted) -> str:
        return breaking_points(asked, capacity(asked, costs))[0].what

    fast = StreamLoad("s", "ab", 100, 1, {"w": Window(ticks=10**6)})
    assert first(wanted(streams=[fast], beat_ms=100)) == "one calibrator process, of one cohort"
    slow = StreamLoad("s", "ab", 600_000, 1, {"w": Window(ticks=144)})
    assert "connections" in first(wanted(devices=10**6, cohorts=1_000, streams=[slow], beat_ms=600_000))
    each = StreamLoad("s", "ab", 600_000, 1, {"w": Window(ticks=1, scopes=("device",))})
    assert "releases" in first(wanted(devices=50_000, cohorts=5_000, streams=[each], beat_ms=600_000))


def test_costs_are_read_as_strictly_as_they_were_written() -> None:
    """One that is missing, unknown, negative or no number is refused, and named."""
    tree = published_costs().as_tree()
    assert from_tree(tree) == published_costs()
    for change in (
        {"worker_bytes": -1.0},
        {"worker_bytes": "x"},
        {"worker_bytes": float("nan")},
        {"costs": 2},
        {"databases": {"sqlite": {"batch_s": 1.0}}},
        {"brokers": {"nats": {"batch_s": 1.0, "connection_bytes": 1.0, "luck": 1.0}}},
    ):
        with pytest.raises(ValueError, match=r"worker_bytes|format 1|lacks a cost"):
            from_tree(tree | change)
    with pytest.raises(ValueError, match="database postgresql was not measured"):
        capacity(wanted(database="postgresql"), _alone())
