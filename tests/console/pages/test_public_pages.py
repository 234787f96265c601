"""Releases and the ledger: what is shown and downloaded is what was published and charged."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from sqlalchemy import select

from hushmq.broker.contract.messages import Release, decode
from hushmq.calibrator.store import tables as store
from hushmq.console.store.read_only_database import ReadOnlyDatabase
from tests.calibrator.site import desk
from tests.console.conftest import Opened
from tests.console.site_messages import publish_stored


def test_releases_are_downloaded_as_they_were_published(opened: Opened) -> None:
    """The exact bytes; and a table with the same numbers."""
    console = opened()
    publish_stored(console.context.site, console.context.database)
    client = console.client("vic")
    lines = client.get("/releases/download?format=jsonl").body.splitlines()
    stored = console.context.database.read_here(
        lambda db: db.execute(select(store.release.c.payload).order_by(store.release.c.entry)).scalars().all()
    )
    assert lines == stored
    rows = list(csv.DictReader(io.StringIO(client.get("/releases/download?format=csv").text)))
    release = decode(Release, stored[-1])
    mine = [row for row in rows if int(row["entry"]) == release.entry]
    assert [float(row["frequency"]) for row in mine] == list(release.frequencies)
    assert [float(row["high"]) for row in mine] == [high for _, high in release.intervals]


def test_what_is_not_sent_is_not_shown(opened: Opened, tmp_path: Path) -> None:
    """A release is public when the broker has it, and not before."""
    file = tmp_path / "unsent.db"
    with desk(f"sqlite:///{file}") as here:
        here.adopt()
        here.window(0)
        here.cohort.close_due()
    console = opened(database=file)
    publish_stored(console.context.site, ReadOnlyDatabase(f"sqlite:///{file}"))
    client = console.client("vic")
    assert client.get("/releases/download?format=jsonl").body == b""
    assert "Nothing of this window has been published yet" in client.get("/releases").text


def test_the_ledger_is_shown_and_downloaded_whole(opened: Opened) -> None:
    """Every entry with its digest; a stream that is not there is no filter."""
    console = opened()
    publish_stored(console.context.site, console.context.database)
    client = console.client("vic")
    rows = console.context.database.read_here(lambda db: db.execute(select(store.ledger)).all())
    found = [json.loads(line) for line in client.get("/ledger/download?format=jsonl").text.splitlines()]
    assert found == [dict(row._mapping) for row in rows]
    text = client.get("/ledger?stream=nothing&before=x").text
    assert all(row.digest in text for row in rows)
    assert "Verify now" not in text
    assert client.post("/ledger/verify", {"csrf": client.get("/").csrf}).status == 403


def test_a_part_of_the_releases_is_drawn_closer(opened: Opened) -> None:
    """Those of the ledger entries in the address, and no others; the page without them is a link away."""
    console = opened()
    publish_stored(console.context.site, console.context.database)
    client = console.client("vic")
    whole = client.get("/releases").text
    assert "&#34;keys&#34;: [1, 2, 3]" in whole
    assert "part ✕" not in whole
    part = client.get("/releases?from=2&to=3").text
    assert "&#34;keys&#34;: [2, 3]" in part
    assert "2 releases of" in part
    assert "part ✕" in part
    assert "published in this part" in client.get("/releases?from=700&to=900").text


@pytest.mark.parametrize(
    "query",
    [
        "from=1",
        "from=x&to=2",
        "from=-1&to=2",
        "from=1&to=99999999999999999999",
        "stream=motion",
        "stream=none",
        "scope=d0",
        "span=all&state=still",
        "state=x",
    ],
)
def test_any_choice_shows_something(opened: Opened, query: str) -> None:
    """An address that names what is not there leads to what is."""
    console = opened()
    publish_stored(console.context.site, console.context.database)
    assert console.client("vic").get(f"/releases?{query}").status == 200
