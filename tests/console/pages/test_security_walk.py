"""A walk through every address of the console, as a stranger, a viewer, an operator and another site's page.

The addresses are those of the application itself, so that one added later is walked, too.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from starlette.routing import Route

from hushmq.broker.provision.broker_process import write_private
from hushmq.console.pages.console_app import GUARDED
from hushmq.console.pages.security_headers import HEADERS
from hushmq.console.store.read_only_database import ReadOnlyDatabase
from tests.console.asgi_client import Answer, AsgiClient
from tests.console.conftest import PASSWORDS, Console, Opened
from tests.console.site_messages import publish_stored, report, status

OPEN = {"/health", "/static/{name}", "/login", "/logout", "/live/{page:path}"}
"""What answers without a session: nothing about the site, a form, or 204."""
OF_OPS = "of-ops-at-the-broker"
READ_PATHS = [path.replace("{device}", "d0") for path, _, _, methods in GUARDED if "GET" in methods]
FORM_PATHS = [path for path, _, _, methods in GUARDED if "POST" in methods]


@pytest.fixture
def console(opened: Opened, tmp_path: Path) -> Console:
    """A console that may publish, of a site with devices and releases."""
    write_private(tmp_path / "ops-password", OF_OPS + "\n")
    upload = f'upload = {{ username = "ops", password_file = "{tmp_path / "ops-password"}" }}'
    console = opened(more=upload)
    publish_stored(console.context.site, console.context.database)
    report(console.context.site, "d0", status())
    return console


def send(client: AsgiClient, method: str, path: str, **headers: str) -> Answer:
    return asyncio.run(client.request(method, path, headers=headers))


def untouched(console: Console) -> bool:
    """Whether no form has had an effect: nothing runs, nothing is staged."""
    return not console.context.jobs.last and console.context.staged is None


def test_every_address_is_guarded_or_known_to_be_open(console: Console) -> None:
    """An address is either behind a login with a role, or in the list of this test."""
    routes = [one for one in console.app.routes if isinstance(one, Route)]
    assert len(routes) == len(console.app.routes)
    assert {one.path for one in routes} == OPEN | {path for path, *_ in GUARDED}
    for path, _, role, methods in GUARDED:
        assert role == "operator" or methods == ("GET",), f"a viewer may change something at {path}"


@pytest.mark.parametrize("path", FORM_PATHS)
def test_a_form_without_the_sessions_token_does_nothing(console: Console, path: str) -> None:
    """Neither without one, nor with that of another session, nor with the right one from a foreign page."""
    client, other = console.client("ann"), console.client("ann")
    mine, others = client.get("/").csrf, other.get("/").csrf
    assert mine != others
    for form in ({}, {"csrf": ""}, {"csrf": others}):
        assert client.post(path, form).status == 403
    for foreign in ({"origin": "https://evil.example"}, {"origin": "null"}, {"sec_fetch_site": "same-site"}):
        assert client.post(path, {"csrf": mine}, **foreign).status == 403
    viewer = console.client("vic")
    assert viewer.post(path, {"csrf": viewer.get("/").csrf}).status == 403
    assert untouched(console)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_no_other_method_is_answered(console: Console, method: str) -> None:
    """Nor does a form's address answer to GET: a link cannot change anything."""
    client = console.client("ann")
    for path in (*READ_PATHS, *FORM_PATHS, "/login", "/logout"):
        assert send(client, method, path).status == 405
    for path in (*FORM_PATHS, "/logout"):
        assert client.get(path).status == 405
    assert untouched(console)


def test_every_answer_carries_every_header(console: Console) -> None:
    """Whoever asks, whatever comes: a page, a redirection, a refusal, an error."""
    seen = set()
    for client in (console.client(), console.client("vic"), console.client("ann")):
        answers = [client.get(path) for path in (*READ_PATHS, "/nowhere", "/login", "/static/nothing")]
        answers += [client.post(path, {}) for path in FORM_PATHS]
        answers.append(client.post("/login", {"name": "x" * 600_000}))
        answers.append(send(client, "GET", "/", host="evil.example"))
        for answer in answers:
            seen.add(answer.status)
            for name, value in HEADERS.items():
                assert answer.headers[name.lower()] == value
            assert answer.headers["cache-control"] == "no-store"
            assert "server" not in answer.headers
    assert {200, 303, 400, 403, 404, 413, 503} <= seen


def test_a_cookie_is_for_this_console_alone(console: Console) -> None:
    """Scripts cannot read it, other sites cannot send it, and a login ends the session that was there."""
    client = console.client("vic")
    before = client.cookies["hushmq"]
    answer = client.login("ann", PASSWORDS["ann"])
    said = answer.headers["set-cookie"].lower()
    assert "httponly" in said
    assert "samesite=strict" in said
    assert "domain=" not in said
    assert client.cookies["hushmq"] != before
    client.cookies["hushmq"] = before
    assert client.get("/").status == 303


def test_no_page_file_or_log_holds_a_secret(console: Console) -> None:
    """Neither passwords nor their hashes, nor sessions' tokens, are on any page, in any download or in the log."""
    client, other = console.client("ann"), console.client("vic")
    stored = json.loads(console.context.config.users_file.read_text())
    hashes = [str(value) for value in _leaves(stored) if len(str(value)) >= 20]
    assert len(hashes) >= 2
    secrets = [OF_OPS, *PASSWORDS.values(), *hashes, client.cookies["hushmq"], other.cookies["hushmq"]]
    secrets.append(other.get("/").csrf)
    texts = [client.get(path).text for path in READ_PATHS]
    texts += [other.get(path).text for path in READ_PATHS if path != "/"]
    console.context.activity.flush()
    texts.append(console.context.config.log_file.read_text())
    for n, text in enumerate(texts):
        found = [secret for secret in secrets if secret in text]
        # A viewer's own pages have the token of their own forms.
        assert not found or (n >= len(READ_PATHS) and found == [secrets[-1]])


def test_a_database_that_is_gone_does_not_tell_its_password(console: Console) -> None:
    """An operator is told that it does not answer, and where it is; a viewer nothing; the password nobody."""
    console.context.database = ReadOnlyDatabase(
        "postgresql+psycopg://reader:of-the-database@127.0.0.1:1/hush"
    )
    for name in ("ann", "vic"):
        client = console.client(name)
        for path in READ_PATHS:
            text = client.get(path).text
            assert "of-the-database" not in text
            assert name == "ann" or "127.0.0.1:1" not in text


def _leaves(tree: object) -> list[object]:
    if isinstance(tree, dict):
        return [leaf for one in tree.values() for leaf in _leaves(one)]
    if isinstance(tree, list):
        return [leaf for one in tree for leaf in _leaves(one)]
    return [tree]
