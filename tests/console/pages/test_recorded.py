"""What the log has of keys, users and devices: every change once, over several runs of the console."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from contextlib import closing
from html import unescape
from pathlib import Path

from hushmq.broker.contract.messages import Status
from hushmq.console.activity.activity_log import KEPT, ActivityLog
from hushmq.console.activity.verify_log import verify_log
from hushmq.console.pages.console_context import ConsoleContext
from hushmq.console.state.device_decisions import decided
from tests.calibrator.site import OPS, STRANGER
from tests.console.conftest import PASSWORDS, Console, Opened
from tests.console.site_messages import publish_stored, report, status


def said(context: ConsoleContext, kind: str) -> list[tuple[str, str]]:
    return [(one.subject, one.words) for one in context.activity.entries if one.kind == kind]


def again(console: Console) -> ConsoleContext:
    """The same console after a restart."""
    console.context.activity.flush()
    return ConsoleContext(console.context.config, console.context.log)


def test_users_and_passwords_are_logged_when_they_change(opened: Opened) -> None:
    """Added, another role, another password, removed: once each, also of what changed while the console was down."""
    console = opened()
    context = console.context
    context.note_access()
    first = said(context, "user")
    assert ("ann", "is a user with the role operator") in first
    assert ("vic", "is a user with the role viewer") in first
    assert not any(PASSWORDS["ann"] in words for _, words in first)
    context.note_users()
    assert said(context, "user") == first
    context.users.add("eve", "viewer", "a-third-password")
    context.note_users()
    context.users.add("eve", "operator", "a-fourth-password")
    context.note_users()
    new = said(context, "user")[len(first) :]
    roles = [words for name, words in new if name == "eve"]
    assert roles == ["is a user with the role viewer", "is a user with the role operator"]
    assert len({words for name, words in new if name == "password of eve"}) == 2
    context.users.remove("eve")
    later = again(console)
    before = said(later, "user")
    later.note_access()
    assert said(later, "user") == [*before, ("eve", "is no user any more")]
    later.close()


def test_keys_are_logged_when_they_change(opened: Opened) -> None:
    """Which are trusted, and which one signs; a console that starts again does not repeat it, and says a new one."""
    console = opened()
    context = console.context
    publish_stored(context.site, context.database)
    context.note_access()
    first = said(context, "key")
    assert ("trusted of ops", f"keys of ops that are trusted: {OPS.public.id}") in first
    assert ("signs policies", f"policies are signed by the key {OPS.public.id}") in first
    later = again(console)
    keys = later.config.keys
    later.note_access()
    publish_stored(later.site, later.database)
    assert said(later, "key") == first
    assert len(said(later, "policy")) == 1
    both = keys.model_copy(update={"ops_keys": (*keys.ops_keys, str(STRANGER.public))})
    later.config = later.config.model_copy(update={"keys": both})
    later.note_access()
    assert STRANGER.public.id in said(later, "key")[-1][1]
    later.close()


def test_a_devices_history_outlives_everything_else_in_the_log(opened: Opened) -> None:
    """Thousands of views later it is still there; a restart repeats nothing, and what changed meanwhile is added."""
    console = opened()
    site = console.context.site
    publish_stored(site, console.context.database)
    report(site, "d0", status())
    report(site, "d0", Status(online=False))
    for _ in range(KEPT + 10):
        console.context.record("view", "/", "viewed /", who="ann")
    words = [one for _, one in console.context.activity.of_device("d0")]
    assert words == ["off line", "applied noise 1 of motion", "applied policy 1", "on line"]
    later = again(console)
    publish_stored(later.site, later.database)
    report(later.site, "d0", status(online=False, noise=1))
    assert [one for _, one in later.activity.of_device("d0")] == words
    report(later.site, "d0", status())
    assert later.activity.of_device("d0")[0][1] == "on line"
    later.close()
    assert all(one.passed for one in verify_log(console.context.config.log_file, None))


def test_what_the_calibrator_decides_is_in_a_devices_history(
    opened: Opened, tmp_path: Path, ledger: Path
) -> None:
    """In and out of quarantine; what held when the console started is no change."""
    file = tmp_path / "copy.db"
    with closing(sqlite3.connect(ledger)) as source, closing(sqlite3.connect(file)) as copy:
        source.backup(copy)
    context = opened(database=file).context
    asyncio.run(context.note_devices())

    def write(sql: str, *values: object) -> None:
        with closing(sqlite3.connect(file)) as db, db:
            db.execute(sql, values)

    insert = "INSERT INTO quarantine (device, reason, strikes, until) VALUES (?, ?, 1, ?)"
    write(insert, "d0", "tampered", time.time() + 900)
    asyncio.run(context.note_devices())
    asyncio.run(context.note_devices())
    write("DELETE FROM quarantine")
    asyncio.run(context.note_devices())
    assert [words for _, words in context.activity.of_device("d0")] == [
        "out of quarantine",
        "put in quarantine: it sent one tick with two different states",
    ]
    left = {"d1": {"motion": "apart from the others"}}
    assert list(decided({}, left)) == [("d1", "left out of windows of motion: apart from the others")]
    assert list(decided(left, {})) == [("d1", "counted again in windows of motion")]
    assert list(decided(None, left)) == []


def test_the_log_of_an_older_console_is_read(tmp_path: Path) -> None:
    """Histories are found again in the file, the newest first."""
    log = ActivityLog(tmp_path / "log.jsonl")
    for n in range(120):
        log.add("site", "device", f"d{n % 2}", f"applied policy {n}")
    log.close()
    found = [words for _, words in ActivityLog(tmp_path / "log.jsonl").of_device("d1")]
    assert found == [f"applied policy {n}" for n in range(119, 19, -2)]


def test_older_entries_are_a_page_away(opened: Opened) -> None:
    """The newest first; the link leads to those before them, and what is no number is passed over."""
    console = opened()
    for n in range(450):
        console.context.record("job", "verify", f"turn {n}", who="ann")
    client = console.client("ann")
    text = client.get("/log?show=job&before=x").text
    assert "turn 449<" in text
    assert "turn 249<" not in text
    found = re.search(r'href="(/log\?show=job&amp;before=\d+)"', text)
    assert found is not None
    second = client.get(unescape(found[1])).text
    assert "turn 249<" in second
    assert "turn 250<" not in second
