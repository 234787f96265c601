"""The promise: numbers that follow from the policy, and a disclosure that is only handed out with a good seal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from starlette.requests import Request

from hushmq.broker.forecast.guess_odds import improved
from hushmq.calibrator.ledger.disclosure import disclose
from hushmq.console.background.evidence import gather_evidence
from hushmq.console.background.jobs import Job
from hushmq.console.pages.promise_page import live_promise_fragment
from hushmq.console.pages.visit import Visit
from hushmq.console.pages_text import at_most
from tests.calibrator.site import CALIBRATOR, STRANGER
from tests.console.conftest import Opened
from tests.console.site_messages import publish_stored


def test_the_promise_is_in_words_and_numbers(opened: Opened) -> None:
    """Budgets, odds rounded up, Θ, what more would cost, what is not promised; for viewers without operators' loss."""
    console = opened()
    publish_stored(console.context.site, console.context.database)
    for name in ("ann", "vic"):
        text = console.client(name).get("/promise").text
        assert "e<sup>1</sup>" in text
        assert at_most(improved(0.5, 1.0)) in text
        assert "What is not promised" in text
        assert "one more window like short" in text
        assert ("The evidence for it" in text) == (name == "ann")
    assert at_most(0.7310) == "≤ 73.1%"
    assert at_most(0.73101) == "≤ 73.2%"
    assert at_most(0.99902) == "≤ 99.91%"
    assert at_most(1 - 1e-5) == "≤ 99.9990%"
    assert at_most(1.0) == "≤ 100%"


def test_a_page_does_not_wait_for_what_more_would_cost(opened: Opened) -> None:
    """It says that this is being computed; everybody is told when it is there, and it is computed once."""
    console = opened()
    context = console.context
    publish_stored(context.site, context.database)
    context.forecasts.patience_s = 0.0

    async def visited() -> list[str]:
        _, session = context.sessions.begin(context.users.users()["vic"])
        scope = {"type": "http", "headers": [], "query_string": b"", "path": "/promise", "method": "GET"}
        visit = Visit(Request(scope), session, context)
        number = context.changes.number("viewer")
        first = await live_promise_fragment(visit)
        with context.changes.reader("viewer", number) as reader:
            assert "forecast" in await reader.wait(60)
        return [first, await live_promise_fragment(visit)]

    first, second = asyncio.run(visited())
    assert "Being computed" in first
    assert "one more window like short" in second
    assert "Being computed" not in second


def test_the_evidence_is_drawn_for_operators(opened: Opened) -> None:
    """Coverage by device, and the loss at each instant, as the background job says them; a viewer sees neither."""
    console = opened()
    context = console.context
    publish_stored(context.site, context.database)
    said = context.database.read_here(lambda db: list(gather_evidence(db, {})))
    job = context.jobs.last["evidence"] = Job("evidence", "ann", said=said, code=0, ended=0.0)
    assert job.progress == 1.0
    text = console.client("ann").get("/promise").text
    for words in ("Loss at each instant", "Coverage: do devices lie within", "still → moving"):
        assert words in text
    found = next(one for one in said if "by_device" in one)
    assert found["inside"] <= found["devices"]
    assert "Loss at each instant" not in console.client("vic").get("/promise").text
    later = Job("evidence", "ann")
    context.jobs.last["evidence"] = later
    assert "Loss at each instant" in console.client("ann").get("/promise").text, "until the next one is there"


def test_a_disclosure_without_a_good_seal_is_not_handed_out(opened: Opened, tmp_path: Path) -> None:
    """Changed, sealed by somebody else, or no JSON at all: it is not offered."""
    file = tmp_path / "disclosure.json"
    console = opened(more=f'disclosure_file = "{file}"')
    publish_stored(console.context.site, console.context.database)
    client = console.client("vic")
    database = console.context.database
    good = database.read_here(lambda db: disclose(db, cohort="test", key=CALIBRATOR))
    strange = database.read_here(lambda db: disclose(db, cohort="test", key=STRANGER))
    for text in ("", "[]", "{", json.dumps(strange), json.dumps(good | {"policy": 7})):
        file.write_text(text)
        assert client.get("/promise/disclosure").status == 503
        assert "Signed disclosure" not in client.get("/promise").text
    file.write_text(json.dumps(good))
    assert json.loads(client.get("/promise/disclosure").body) == good
    assert "Signed disclosure" in client.get("/promise").text
