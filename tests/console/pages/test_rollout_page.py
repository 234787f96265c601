"""From a proposal to every device: what is kept, compared and shown; commands themselves are not run here."""

from __future__ import annotations

from typing import Any

import pytest

from hushmq.broker.contract.messages import Refusal
from hushmq.broker.contract.policy_message import Audiences, Policy
from hushmq.broker.contract.problem import Reason
from hushmq.console.background.jobs import Job, Jobs
from hushmq.console.pages_text import with_code
from tests.calibrator.site import policy, signed
from tests.console.asgi_client import AsgiClient
from tests.console.conftest import Console, Opened
from tests.console.site_messages import publish_stored, report, status

UPLOAD = 'upload = { username = "ops" }'


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The jobs that would run, which end at once."""
    found: list[tuple[str, dict[str, Any]]] = []

    def start(jobs: Jobs, name: str, by: str, request: dict[str, Any]) -> Job:
        found.append((name, request))
        job = jobs.last[name] = Job(name, by, ended=1.0, code=0, said=[{"line": f"{name} of it"}])
        return job

    monkeypatch.setattr(Jobs, "start", start)
    return found


@pytest.fixture
def console(opened: Opened) -> Console:
    console = opened(more=UPLOAD)
    publish_stored(console.context.site, console.context.database)
    return console


def proposed(client: AsgiClient, **given: str) -> Policy:
    """Propose what sliders say, and take the proposal as a file."""
    assert client.post("/plan/propose", {"csrf": client.get("/").csrf, **given}).status == 303
    return Policy.model_validate_json(client.get("/plan/proposal.json").body)


def upload(client: AsgiClient, message: Policy) -> str:
    """Upload a signed policy; return the page that shows it."""
    form = {"csrf": client.get("/").csrf, "file": signed(message).decode()}
    assert client.post("/plan/upload", form).status == 303
    return client.get("/plan").text


def test_what_is_signed_is_compared_with_what_was_proposed(
    console: Console, started: list[tuple[str, dict[str, Any]]]
) -> None:
    """Word for word, and the fields that differ are named; publishing what was proposed ends the proposal."""
    client = console.client("ann")
    wanted = proposed(client, public="0.5")
    assert wanted.version == 2
    assert wanted.streams["motion"].epsilon.public == 0.5
    name, request = started[0]
    assert name == "review"
    assert request["push"][-1] == "--dry-run"
    assert Policy.model_validate_json(request["payload"]) == wanted
    assert "review of it" in client.get("/plan").text
    other = wanted.model_copy(
        update={"streams": policy(epsilon=Audiences(operator=4.0, public=0.75)).streams}
    )
    text = upload(client, other)
    assert "It is not what ann proposed. It differs in streams.motion.epsilon.public." in text
    assert "It is what ann proposed" in upload(client, wanted)
    staged = console.context.staged
    assert staged is not None
    client.post("/plan/publish", {"csrf": client.get("/").csrf, "digest": staged.digest, "what": "publish"})
    assert console.context.proposal is None
    assert [name for name, _ in started] == ["review", "preview", "preview", "publish"]
    words = [one.words for one in console.context.activity.entries if one.kind == "upload"]
    assert words[0] == "proposed policy 2"
    assert words[-1] == "published policy 2"


def test_a_proposal_is_withdrawn(console: Console, started: list[tuple[str, dict[str, Any]]]) -> None:
    """By any operator, which the log shows; nothing is left to be signed."""
    client = console.client("ann")
    proposed(client)
    client.post("/plan/withdraw", {"csrf": client.get("/").csrf})
    assert client.get("/plan/proposal.json").status == 503
    assert "is proposed" not in client.get("/plan").text
    words = [one.words for one in console.context.activity.entries if one.kind == "upload"]
    assert words == ["proposed policy 2", "withdrew the proposal of policy 2 by ann"]
    assert [name for name, _ in started] == ["review"]


def test_a_viewer_sees_no_proposal(console: Console, started: list[tuple[str, dict[str, Any]]]) -> None:
    """What operators think of doing is theirs."""
    proposed(console.client("ann"), public="0.5")
    viewer = console.client("vic")
    assert "proposed" not in viewer.get("/plan").text
    assert "Propose it" not in viewer.get("/plan/forecast").text
    assert viewer.get("/plan/proposal.json").status == 403
    assert len(started) == 1


def test_the_rollout_is_counted(console: Console, started: list[tuple[str, dict[str, Any]]]) -> None:
    """Devices by how far they are, and the reasons of those that refuse, in words."""
    client = console.client("ann")
    upload(client, policy(version=2))
    staged = console.context.staged
    assert staged is not None
    site = console.context.site
    for n in range(3):
        report(site, f"done-{n}", status(policy=2))
    report(site, "silent", status(policy=1))
    report(site, "gone", status(policy=1, online=False))
    report(site, "stubborn", status(refused=Refusal(version=2, reason=Reason.EPSILON_ABOVE_CAP)))
    client.post("/plan/publish", {"csrf": client.get("/").csrf, "digest": staged.digest, "what": "publish"})
    text = client.get("/plan").text
    for words in ("3 applied it", "1 refused it", "1 have not answered", "1 off line"):
        assert words in text
    assert "raise <code>trust.epsilon_max</code> on the device" in text
    assert with_code("a `<b>` c") == "a <code>&lt;b&gt;</code> c"
    assert "1 of 6: ε is above the device&#39;s own limit." in text
    assert started[-1][0] == "publish"
