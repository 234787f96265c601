"""Killed with -9 at every step of charge and release: no release without a debit, no debit lost, no result drawn twice.

The window that is closed is the last before a look, so the steps are also those of drawing the statistics that have
waited since the first window, and of looking at them. A step is every statement that writes to the database, the moment
before and after every commit, before and after the mark is written, and before and after every publication. The child
counts its steps and kills itself at the one it was told; then another child starts on what is left, as the service
manager would start it, and ends its work.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from sqlalchemy import Connection, select

from hushmq.broker.contract.messages import Release, decode
from hushmq.broker.contract.policy_message import Audiences, Window
from hushmq.calibrator.learning.update_schedule import FIRST_UPDATE
from hushmq.calibrator.ledger import high_water_mark as mark_module
from hushmq.calibrator.ledger.high_water_mark import contradiction, digest, read_marks
from hushmq.calibrator.ledger.live_accounts import read_accounts
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import open_store, open_to_read
from hushmq.calibrator.windows.close_window import close_window
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.conftest import Databases
from tests.calibrator.site import START, STREAM, TOPICS, WIDE, Clock, desk, policy, stream_policy
from tests.calibrator.steps import Steps
from tests.child import SOON, in_child

EACH = {"short": Window(ticks=20, scopes=("device",))}
"""As many results of one debit as there are devices."""
DEVICES, BEFORE = 3, FIRST_UPDATE - 1
"""Devices, and windows that are closed and published before."""


def work(url: str, folder: Path, step: Steps) -> None:
    """Close what is due and publish it, as the daemon does; the world is a file that is only appended to."""
    clock = Clock(START + 20 * FIRST_UPDATE + 1)
    write_marks = mark_module.write_marks

    def marking(*args: Any) -> None:
        step()
        write_marks(*args)
        step()

    with (
        mock.patch.object(mark_module, "write_marks", marking),
        desk(url, clock=clock, mark_path=folder / "mark") as here,
    ):
        step.follow(here.engine)
        here.cohort.close_due()
        step()
        world = os.open(folder / "world", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for one in here.cohort.unsent():
            step()
            os.write(world, one.payload + b"\n")
            step()
            here.cohort.mark_sent([one])
        step()
        os.close(world)


def published(folder: Path) -> list[bytes]:
    world = folder / "world"
    return world.read_bytes().splitlines() if world.exists() else []


@contextmanager
def reading(url: str) -> Iterator[Connection]:
    engine = open_to_read(url)
    try:
        with engine.connect() as db:
            yield db
    finally:
        engine.dispose()


def books(db: Connection, folder: Path) -> tuple[list[Any], dict[tuple[int, str], bytes]]:
    """Debits and results. The mark contradicts neither."""
    for stream, mark in read_marks(folder / "mark").items():
        assert contradiction(db, stream, mark) is None
    entries = list(db.execute(select(store.ledger).order_by(store.ledger.c.id)))
    return entries, {(row.entry, row.topic): row.payload for row in db.execute(select(store.release))}


def learned(db: Connection) -> tuple[dict[str, int], dict[str, list[Any]]]:
    """How many ticks wait for their noise, by device; and everything that was drawn and concluded from draws."""
    waiting = {row.device: row.ticks for row in db.execute(select(store.pending))}
    tables = (store.statistic, store.learned_theta, store.learning)
    return waiting, {one.name: sorted(map(tuple, db.execute(select(one)))) for one in tables}


def check(folder: Path, entries: list[Any], results: dict[tuple[int, str], bytes]) -> None:
    """What must hold at any moment."""
    for payload in published(folder):
        message = decode(Release, payload)
        topic = TOPICS.release(STREAM, message.window, message.scope)
        assert results[message.entry, topic] == payload, "published what is not stored"
        assert message.entry in {row.id for row in entries}, "published without a debit"
    windows = [(row.stream, row.window, row.scope, row.first) for row in entries]
    assert len(windows) == len(set(windows)), "a window was charged twice"
    before = "0" * 64
    for row in entries:
        assert row.digest == digest(before, row._asdict())
        before = row.digest


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_at_every_step(databases: Databases, tmp_path: Path) -> None:
    """At any step: what the world has seen is charged and stored; after the restart everything is published once.

    A window's sums wait from its debit on, or they are drawn with it, all or none: never both, and never again. Stops
    when a child got through all its steps alive; there must have been more than 40.
    """
    prepared = databases.fresh()
    with desk(prepared) as here:
        here.adopt(policy(windows=EACH))
        for number in range(BEFORE):
            here.window(number, devices=DEVICES)
            here.cohort.close_due()
        here.cohort.mark_sent(here.cohort.unsent())
        here.window(BEFORE, devices=DEVICES)
    waited = {f"d{n}": 20 * BEFORE for n in range(DEVICES)}
    with reading(prepared) as db:
        waiting, before = learned(db)
    assert waiting == waited
    assert before["statistic"] == []
    once = tmp_path / "once"
    once.mkdir()
    work(databases.copy(prepared), once, Steps(None))
    for at in itertools.count(1, databases.every):
        url, folder = databases.copy(prepared), tmp_path / f"run-{at}"
        folder.mkdir()
        ended = in_child(lambda url=url, folder=folder, at=at: work(url, folder, Steps(at)))
        assert ended in {0, signal.SIGKILL}, f"step {at} ended with {ended}"
        with reading(url) as db:
            entries, results = books(db, folder)
            waiting, drawn = learned(db)
        check(folder, entries, results)
        assert (waiting, drawn) == (waited, before) if len(entries) == BEFORE else waiting == {}
        assert in_child(lambda url=url, folder=folder: work(url, folder, Steps(None))) == 0
        with reading(url) as db:
            entries_after, results_after = books(db, folder)
            waiting_after, drawn_after = learned(db)
        check(folder, entries_after, results_after)
        assert entries_after[: len(entries)] == entries, "a debit was lost"
        assert {key: results_after[key] for key in results} == results, "a result was drawn again"
        assert waiting_after == {}, "what was drawn waits to be drawn again"
        assert waiting or drawn_after == drawn, "statistics were drawn again"
        assert len(drawn_after["statistic"]) == DEVICES
        assert len(drawn_after["learned_theta"]) == 1 + DEVICES
        assert [(row.scope, row.first) for row in entries_after] == [
            ("device", START + 20 * number) for number in range(FIRST_UPDATE)
        ]
        newest = entries_after[-1].id
        assert set(published(folder)) == {
            payload for (entry, _), payload in results_after.items() if entry == newest
        }
        if ended == 0:
            break
    assert at > 40


def prepare_for_one_more(url: str) -> None:
    """A ledger with room for one more of the windows "a" and "b", not for both."""
    with desk(url) as here:
        windows = {"short": Window(ticks=20), "long": Window(ticks=10**7)}  # the long one keeps the states
        here.adopt(policy(learning=0.01, epsilon=Audiences(operator=4.0, public=0.7), windows=windows))
        here.window(devices=2)
        (one,) = here.cohort.close_due().windows
        assert one.charge is not None


RICHER = stream_policy(
    learning=0.01,
    epsilon=Audiences(operator=4.0, public=1.5),
    windows={"a": Window(ticks=20), "b": Window(ticks=20)},
)


def spend(
    url: str, window: str, *, pause: Callable[[], None] = lambda: None, theta: BinaryTheta = WIDE
) -> bool:
    """Close one window as a calibrator with its own memory of the ledger; True if it was allowed."""
    engine = open_store(url)
    try:
        with engine.begin() as db:
            accounts = read_accounts(db, STREAM, RICHER, theta=theta)
        with engine.begin() as db:
            span = Span(STREAM, window, START, START + 19)
            closed = close_window(db, span, accounts, TOPICS)
            pause()
        return closed.charge is not None
    finally:
        engine.dispose()


def test_the_last_of_a_budget_fits_once(databases: Databases) -> None:
    """One after the other: the first window is charged, the second refused. The race below is about this."""
    url = databases.fresh()
    prepare_for_one_more(url)
    assert [spend(url, "a"), spend(url, "b")] == [True, False]


def test_a_second_calibrator_waits_for_the_first(databases: Databases) -> None:
    """While one calibrator is between its decision and its commit, the other can neither decide nor commit."""
    url = databases.fresh()
    prepare_for_one_more(url)
    outcome: list[bool] = []
    other = threading.Thread(target=lambda: outcome.append(spend(url, "b")))

    def pause() -> None:
        other.start()
        other.join(0.4)
        assert other.is_alive()

    assert spend(url, "a", pause=pause)
    other.join(20)
    assert outcome == [False]


def test_two_calibrators_close_a_window_once(databases: Databases) -> None:
    """Both found the window due; the second to come finds it closed: one debit, one draw, nothing for it to publish."""
    url = databases.fresh()
    with desk(url) as one, desk(url, clock=one.clock) as two:
        one.adopt()
        two.adopt()
        one.window()
        span = Span(STREAM, "short", START, START + 19)
        ends = []
        for here in (one, two):
            with here.engine.begin() as db:
                ends.append(
                    close_window(
                        db, span, read_accounts(db, STREAM, stream_policy(), theta=WIDE), TOPICS
                    ).charge
                )
        assert ends[0] is not None
        assert ends[1] is None
        assert len(two.cohort.unsent()) == 1
        assert two.cohort.ledger_states()[0].entries == 1


@pytest.mark.parametrize("rounds", [4])
def test_racing_for_the_last_of_a_budget(postgres_databases: Databases, tmp_path: Path, rounds: int) -> None:
    """Two calibrators as processes on one PostgreSQL, started at once: exactly one wins, every time."""
    prepared = postgres_databases.fresh()
    prepare_for_one_more(prepared)
    for _ in range(rounds):
        url = postgres_databases.copy(prepared)
        read, write = os.pipe()
        children = []
        for window in ("a", "b"):
            pid = os.fork()
            if pid == 0:
                code = 2
                try:
                    signal.signal(signal.SIGALRM, signal.SIG_DFL)
                    signal.alarm(SOON)
                    os.close(write)
                    os.read(read, 1)  # both wake when the parent closes its end
                    code = 0 if spend(url, window) else 1
                finally:
                    os._exit(code)
            children.append(pid)
        os.close(read)
        os.close(write)
        ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        assert sorted(ends) == [0, 1]
