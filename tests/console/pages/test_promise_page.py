"""The promise: numbers that follow from the policy, and a disclosure that is only handed out with a good seal."""

from __future__ import annotations

import json
from pathlib import Path

from hushmq.broker.forecast.guess_odds import improved
from hushmq.calibrator.ledger.disclosure import disclose
from hushmq.console.pages_text import at_most
from hushmq.console.state.what_if import what_if
from tests.calibrator.site import CALIBRATOR, STRANGER, WIDE, policy
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


def test_what_more_would_cost_is_what_it_costs() -> None:
    """Another window or stream means more noise, half the budget too, twice the budget less."""
    now, window, stream, double, half = what_if(policy(), "motion", {"motion": WIDE}, 50)
    assert now.scale is not None
    for one in (window, half):
        assert one.scale is not None
        assert one.scale > 1.5 * now.scale
    assert now.half_width is not None
    assert stream.half_width is not None
    assert stream.half_width > now.half_width
    assert double.scale is not None
    assert double.scale < now.scale


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
