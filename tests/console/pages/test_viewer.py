"""A viewer's pages depend on what was published, and on nothing else."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hushmq.broker.contract.messages import LedgerState, encode
from hushmq.console.pages.console_app import GUARDED
from hushmq.console.pages.live_updates import PUBLIC_FRAGMENTS, _fragments
from hushmq.console.pages.visit import Visit
from tests.calibrator.site import desk, from_device
from tests.console.conftest import Console, Opened
from tests.console.site_messages import TOPICS, publish_stored, report, status

VIEWED = [path for path, _, role, methods in GUARDED if role == "viewer" and "GET" in methods]


def shut(text: str) -> str:
    """A page without what differs between two logins."""
    return re.sub(r'name="csrf" value="[^"]+"', "csrf", text)


def busy(console: Console) -> None:
    """What only operators may know: devices come, refuse, drop and go; the operator's account moves; all is late."""
    site = console.context.site
    for n in range(40):
        report(site, f"porch-{n}", status(buffered=n, dropped=n))
        report(site, f"porch-{n}", status(online=n % 2 == 0, buffered=2 * n, dropped=2 * n, policy=1 + n % 3))
    for stream in ("motion", "other"):
        state = LedgerState(
            stream=stream, adversary="prior", entries=9, late=77, stopped="the ledger is behind",
            operator={"budget": 4.0, "loss": 3.9, "left": 0.1, "theta": THETA},
            public={"budget": 1.0, "loss": 0.9, "left": 0.1, "theta": THETA},
        )  # fmt: skip
        site.receive(TOPICS.ledger(stream), encode(state), False)
    site.set_connected(True)
    site.receive(TOPICS.status("porch-1"), b"not a message", False)


THETA = {"q": {"low": 0.1, "high": 0.2}, "r": {"low": 0.1, "high": 0.2}}


@pytest.fixture
def pair(opened: Opened, tmp_path: Path) -> tuple[Console, Console]:
    """Two consoles of one site as the public knows it; on one of them much has happened that only operators see."""
    quiet_db, busy_db = tmp_path / "quiet.db", tmp_path / "busy.db"
    with desk(f"sqlite:///{quiet_db}") as here:
        here.adopt()
        for number in range(2):
            here.window(number)
            here.cohort.close_due()
        here.cohort.mark_sent(here.cohort.unsent())
    with closing(sqlite3.connect(quiet_db)) as source, closing(sqlite3.connect(busy_db)) as copy:
        source.backup(copy)  # also what is still in the write-ahead log
    with desk(f"sqlite:///{busy_db}") as here:
        here.clock.tick += 50
        for n in range(5):
            here.cohort.receive([from_device(f"new{n}", int(here.clock.tick) - 8, [0, 1, 1])])
        here.cohort.receive([from_device("d0", int(here.clock.tick) + 90_000, [1])] * 5)
    consoles = opened("quiet", quiet_db), opened("busy", busy_db)
    for console in consoles:
        publish_stored(console.context.site, console.context.database)
    busy(consoles[1])
    return consoles


@pytest.mark.parametrize("path", VIEWED)
def test_a_viewer_cannot_tell_what_only_operators_know(pair: tuple[Console, Console], path: str) -> None:
    """The same bytes, whatever devices do; an operator sees the difference."""
    texts = [shut(console.client("vic").get(path).text) for console in pair]
    assert texts[0] == texts[1]
    assert "porch-39" not in texts[1]


def test_an_operator_can(pair: tuple[Console, Console]) -> None:
    """The test above compares two sites that differ."""
    first, second = (shut(console.client("ann").get("/").text) for console in pair)
    assert first != second


def test_a_viewers_page_is_woken_by_public_messages_only(pair: tuple[Console, Console]) -> None:
    """No event comes for what devices do, not even an empty one; one comes for a release; both pages get the same."""
    for console in pair:
        console.client("vic")

    async def watched(console: Console) -> list[str]:
        context = console.context
        token, session = context.sessions.begin(context.users.users()["vic"])
        from starlette.requests import Request

        scope = {"type": "http", "headers": [(b"cookie", f"hushmq={token}".encode())], "query_string": b""}
        visit = Visit(Request(scope), session, context)
        events = _fragments(visit, *PUBLIC_FRAGMENTS["site"])
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        for n in range(30):
            report(context.site, f"d{n}", status(buffered=n * 7))
        context.changes.note("ledger")
        context.changes.note("log")
        await asyncio.sleep(0.4)
        assert not waiting.done()
        context.changes.note("release")
        found = [await asyncio.wait_for(waiting, 5)]
        await events.aclose()
        return found

    first, second = (asyncio.run(watched(console)) for console in pair)
    assert first == second
    assert "event: html" in first[0]
