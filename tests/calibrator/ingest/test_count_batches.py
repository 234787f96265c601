"""Each (device, stream, tick) is counted once, whatever arrives in whatever order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, event, insert, select

from hushmq.broker.contract.messages import Batch, Seen
from hushmq.broker.contract.packing import pack
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.calibrator.ingest.count_batches import (
    BatchGroup,
    DeviceBatch,
    Ticks,
)
from hushmq.calibrator.ingest.seen_ticks import MOST_HOLES, seen
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import open_store, sqlite_url
from hushmq.calibrator.store.tick_counts import counted_ticks, late_ticks
from hushmq.pufferfish.binary.binary_noise import BinaryNoise

LATEST = 10**9
ENGINE = open_store("sqlite://")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Connection]:
    engine = open_store(sqlite_url(tmp_path / "ledger.db"))
    with engine.begin() as connection:
        prepare(connection)
        yield connection
    engine.dispose()


def prepare(connection: Connection) -> None:
    connection.execute(
        insert(store.setting).values(
            stream="motion", version=1, policy=1, noise=BinaryNoise(0.3, 0.3).as_json(), payload=b""
        )
    )


def batch(first: int, states: bytes, after: int | None = None, noise: int = 1) -> Batch:
    return Batch(first=first, after=after, count=len(states), states=pack(states), noise=noise)


def arrive(db: Connection, message: Batch, device: str = "d") -> int:
    group = BatchGroup(db, [device])
    fresh = group.count(DeviceBatch(device, "motion", message), Ticks(latest=LATEST))
    group.write()
    return fresh


def stored(db: Connection, device: str = "d") -> dict[int, int]:
    rows = db.execute(select(store.batch).where(store.batch.c.device == device))
    return {row.first + offset: state for row in rows for offset, state in enumerate(row.states)}


def test_many_holes_make_seen_say_less(db: Connection) -> None:
    """With more holes than `seen` can list, it speaks of fewer ticks, so that no uncounted tick looks counted."""
    group = BatchGroup(db, ["d"])
    for number in range(MOST_HOLES + 50):
        message = batch(100 + 10 * number, b"\1\1", after=None if not number else 100 + 10 * number - 5)
        group.count(DeviceBatch("d", "motion", message), Ticks(latest=LATEST))
    group.write()
    said = seen(db, "d").streams["motion"]
    assert len(said.holes) == MOST_HOLES
    counted = set(stored(db))
    declared = {tick for t in counted for tick in range(t - 4, t)}
    claimed = set(range(said.highest + 1)) - {t for low, high in said.holes for t in range(low, high + 1)}
    assert claimed <= counted | declared
    assert said.highest < max(counted)


def test_a_group_is_as_one_by_one(db: Connection) -> None:
    """Repetitions and overlaps within one group count once, as they would in groups of one."""
    group = BatchGroup(db, ["d", "e"])
    one, two = batch(10, bytes([1, 0, 1])), batch(12, bytes([1, 1]))
    found = [
        group.count(DeviceBatch(*key), Ticks(LATEST))
        for key in (("d", "motion", one), ("d", "motion", one), ("d", "motion", two), ("e", "motion", one))
    ]
    group.write()
    assert found == [3, 0, 1, 3]
    assert stored(db) == {10: 1, 11: 0, 12: 1, 13: 1}
    assert counted_ticks(db) == {("d", "motion"): 4, ("e", "motion"): 3}


@pytest.mark.parametrize("again", [bytes([1, 1, 1]), bytes([0, 0])])
def test_a_tick_with_another_state_is_tampered_with(db: Connection, again: bytes) -> None:
    """A tick that comes again with another state is refused with all its batch, in the same group or later."""
    arrive(db, batch(10, bytes([1, 0, 1])))
    with pytest.raises(Rejected) as refusal:
        arrive(db, batch(10, again))
    assert refusal.value.reason == Reason.TAMPERED
    group = BatchGroup(db, ["e"])
    group.count(DeviceBatch("e", "motion", batch(10, bytes([1, 0, 1]))), Ticks(LATEST))
    with pytest.raises(Rejected):
        group.count(DeviceBatch("e", "motion", batch(10, again)), Ticks(LATEST))
    assert stored(db) == {10: 1, 11: 0, 12: 1}


def test_what_comes_again_is_looked_up_together(db: Connection) -> None:
    """The questions to the database do not grow with the batches that come again: after an outage these are most."""
    sent = [
        DeviceBatch(f"d{n}", "motion", batch(10 * at, bytes([n % 2] * 10)))
        for at in range(30)
        for n in range(5)
    ]

    def statements() -> int:
        asked: list[str] = []

        def note(_c: object, _cursor: object, statement: str, *_: object) -> None:
            asked.append(statement)

        event.listen(db, "before_cursor_execute", note)
        group = BatchGroup(db, {one.device for one in sent}, sent)
        for one in sent:
            group.count(one, Ticks(LATEST))
        group.write()
        event.remove(db, "before_cursor_execute", note)
        return len(asked)

    statements()
    assert statements() <= 4
    assert counted_ticks(db) == {(f"d{n}", "motion"): 300 for n in range(5)}


def test_together_finds_what_one_by_one_finds(db: Connection) -> None:
    """Batches that overlap what is held anyhow, some with another state: a group answers as groups of one do."""
    rng = random.Random(3)
    truth = {(device, t): rng.randrange(2) for device in "de" for t in range(60)}
    sent = []
    for _ in range(120):
        device, first = rng.choice("de"), rng.randrange(50)
        states = [truth[device, first + n] for n in range(rng.randrange(1, 10))]
        if rng.random() < 0.2:
            states[rng.randrange(len(states))] ^= 1
        sent.append(DeviceBatch(device, "motion", batch(first, bytes(states))))

    def answer(group: BatchGroup, one: DeviceBatch) -> int | Reason:
        try:
            return group.count(one, Ticks(LATEST))
        except Rejected as refusal:
            return refusal.reason

    for group_size in (1, 7, 40):
        with db.begin_nested() as attempt:
            found = []
            for at in range(0, len(sent), group_size):
                some = sent[at : at + group_size]
                group = BatchGroup(db, "de", some)
                found += [answer(group, one) for one in some]
                group.write()
            states_of = {device: stored(db, device) for device in "de"}
            attempt.rollback()
        if group_size == 1:
            alone = found, states_of
        assert (found, states_of) == alone
    assert Reason.TAMPERED in found


def test_noise_cannot_be_older_than_its_setting(db: Connection) -> None:
    """Ticks before the first that can carry a noise version are impossible."""
    db.execute(
        insert(store.setting).values(
            stream="motion",
            version=2,
            policy=1,
            noise=BinaryNoise(0.2, 0.2).as_json(),
            payload=b"",
            issued=40,
        )
    )
    group = BatchGroup(db, ["d"])
    with pytest.raises(Rejected) as refusal:
        group.count(DeviceBatch("d", "motion", batch(39, bytes(2), noise=2)), Ticks(LATEST))
    assert refusal.value.reason == Reason.IMPOSSIBLE_TICK
    assert group.count(DeviceBatch("d", "motion", batch(40, bytes(2), noise=2)), Ticks(LATEST)) == 2
    assert late_ticks(db, "motion") == 0


def test_identical_bytes_count_once(db: Connection) -> None:
    """A batch that is delivered again changes nothing."""
    message = batch(10, bytes([1, 0, 1]))
    assert arrive(db, message) == 3
    assert arrive(db, message) == 0
    assert counted_ticks(db) == {("d", "motion"): 3}
    assert seen(db, "d").streams["motion"].highest == 12


def test_devices_are_counted_apart(db: Connection) -> None:
    """The same ticks of two devices are different ticks."""
    arrive(db, batch(10, bytes([1, 0])), "d")
    assert arrive(db, batch(10, bytes([1, 1])), "e") == 2
    assert stored(db, "e") == {10: 1, 11: 1}


def test_a_declared_gap_is_no_hole(db: Connection) -> None:
    """What the device says it never made is accounted for; what it made and has not come is a hole."""
    arrive(db, batch(10, bytes(5)))
    arrive(db, batch(20, bytes(5), after=14))
    assert seen(db, "d").streams["motion"].holes == ((0, 9),)
    arrive(db, batch(40, bytes(5), after=34))
    counted = seen(db, "d").streams["motion"]
    assert counted.highest == 44
    assert counted.holes == ((0, 9), (25, 34))
    arrive(db, batch(30, bytes(5), after=24))
    assert seen(db, "d").streams["motion"].holes == ((0, 9),)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (batch(LATEST, bytes(2)), Reason.FUTURE_TICK),
        (batch(10, bytes(2), noise=7), Reason.POLICY_MISMATCH),
        (
            Batch(first=1, after=None, count=3, states="AA==", noise=1).model_copy(update={"count": 12}),
            Reason.MALFORMED,
        ),
    ],
)
def test_what_is_refused_changes_nothing(db: Connection, message: Batch, reason: Reason) -> None:
    """A refused batch leaves no trace."""
    with pytest.raises(Rejected) as refusal:
        arrive(db, message)
    assert refusal.value.reason == reason
    assert counted_ticks(db) == {}
    assert seen(db, "d") == Seen(streams={})


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    data=st.data(),
    runs=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4)), min_size=1, max_size=8),
)
def test_any_order_any_repetition(tmp_path: Path, data: st.DataObject, runs: list[tuple[int, int]]) -> None:
    """Batches in any order, repeated, re-cut at other borders: every tick once, with its own state, no hole left."""
    truth: dict[int, int] = {}
    batches, tick, after = [], 100, None
    for length, gap in runs:
        states = bytes((tick * 7 + offset * 3) % 2 for offset in range(length))
        truth |= {tick + offset: state for offset, state in enumerate(states)}
        batches.append(batch(tick, states, after))
        after = tick + length - 1
        tick += length + gap
    again = data.draw(st.lists(st.sampled_from(batches), max_size=6))
    cut = data.draw(st.sampled_from(batches))
    inner = bytes(truth[t] for t in range(cut.first, cut.last + 1))
    again.append(batch(cut.last, inner[-1:], cut.last - 1 if cut.count > 1 else cut.after))
    order = data.draw(st.permutations([*batches, *again]))
    engine = ENGINE
    with engine.connect() as db:
        db.begin()
        prepare(db)
        total = sum(arrive(db, message) for message in order)
        assert total == len(truth)
        assert stored(db) == truth
        counted = seen(db, "d").streams["motion"]
        assert counted.highest == max(truth)
        assert counted.holes == ((0, 99),)
        db.rollback()
