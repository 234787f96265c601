"""Who gets in, what a form needs, and what every answer carries."""

from __future__ import annotations

import json

import pytest

from hushmq.console.access.login_limits import BY_ADDRESS
from hushmq.console.pages.console_app import GUARDED
from tests.console.conftest import PASSWORDS, Opened

PATHS = [(path.replace("{device}", "d0"), role, methods) for path, _, role, methods in GUARDED]


@pytest.mark.parametrize(("path", "role", "methods"), PATHS)
def test_nobody_gets_in_without_a_login(
    opened: Opened, path: str, role: str, methods: tuple[str, ...]
) -> None:
    """Every page leads to the login, and every page of operators keeps a viewer out, which the log shows."""
    console = opened()
    stranger = console.client()
    for method in methods:
        answer = stranger.get(path) if method == "GET" else stranger.post(path, {})
        assert answer.status == 303
        assert answer.headers["location"].startswith("/login")
    viewer = console.client("vic")
    answer = viewer.get(path) if "GET" in methods else viewer.post(path, {})
    if role == "operator":
        assert answer.status == 403
        assert any(one.who == "vic" and "kept out" in one.words for one in console.context.activity.entries)


def test_a_stranger_learns_nothing(opened: Opened) -> None:
    """Live updates and health say nothing about the site; a cookie that is made up is none."""
    client = opened().client()
    assert client.get("/live/site").status == 204
    assert json.loads(client.get("/health").body) == {"ready": True}
    client.cookies["hushmq"] = "made-up"
    assert client.get("/").status == 303


def test_a_viewer_gets_no_live_updates_of_devices(opened: Opened) -> None:
    """Whatever the device's name is, known or not, the answer is the same."""
    client = opened().client("vic")
    for page in ("devices", "devices/d0", "devices/nobody", "log"):
        answer = client.get(f"/live/{page}")
        assert (answer.status, answer.text) == (403, "operators only\n")


def test_a_form_of_another_site_does_nothing(opened: Opened) -> None:
    """A form needs the session's token, and comes from our own pages; logging in as well."""
    console = opened()
    client = console.client("ann")
    token, cookie = client.get("/").csrf, client.cookies["hushmq"]
    assert client.post("/logout", {"csrf": "wrong"}).status == 303
    assert client.get("/").status == 200
    for foreign in ({"origin": "https://evil.example"}, {"sec_fetch_site": "cross-site"}, {"origin": "null"}):
        client.post("/logout", {"csrf": token}, **foreign)
        assert client.get("/").status == 200
        assert (
            console.client().post("/login", {"name": "ann", "password": PASSWORDS["ann"]}, **foreign).status
            == 403
        )
    client.post("/logout", {"csrf": token})
    client.cookies["hushmq"] = cookie
    assert client.get("/").status == 303


def test_guessing_has_to_wait(opened: Opened) -> None:
    """After ten failures even the right password is not heard from that address; elsewhere it is."""
    console = opened()
    client = console.client()
    for _ in range(BY_ADDRESS):
        answer = client.login("ann", "guess")
        assert answer.status == 401
    answer = client.login("ann", PASSWORDS["ann"])
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) > 0
    elsewhere = console.client()
    elsewhere.address = "10.0.0.9"
    assert elsewhere.login("ann", PASSWORDS["ann"]).status == 303


def test_what_was_typed_is_not_repeated(opened: Opened) -> None:
    """A password in the field of the name is neither in the answer nor in the log."""
    console = opened()
    answer = console.client().login("my-secret-password", "x")
    assert "my-secret-password" not in answer.text
    assert "my-secret-password" not in repr(list(console.context.activity.entries))


@pytest.mark.parametrize(
    "target", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:x"]
)
def test_a_login_leads_nowhere_else(opened: Opened, target: str) -> None:
    """`next` is a page of this console or nothing."""
    client = opened().client()
    answer = client.post("/login", {"name": "ann", "password": PASSWORDS["ann"], "next": target})
    assert answer.headers["location"] == "/"


def test_every_answer_carries_the_headers(opened: Opened) -> None:
    """No inline script or style, nothing from elsewhere, nothing cached or framed; a foreign host is refused."""
    client = opened().client("ann")
    for path in ("/", "/devices", "/health", "/login", "/nowhere", "/static/console.js"):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "cache-control" in answer.headers
        assert " style=" not in answer.text
        assert "<script>" not in answer.text
        assert "onclick" not in answer.text
        assert "http://" not in answer.text.replace("http://www.w3.org/", "")
    assert client.get("/static/../users.json").status == 404
    client.host = "evil.example"
    assert client.get("/").status == 400


def test_a_large_form_is_not_read(opened: Opened) -> None:
    """Without a length, or with one that is too large, it is refused before a login is asked for."""
    client = opened().client()
    assert client.post("/login", {"name": "x" * 600_000}).status == 413
    assert client.post("/login", {}, content_length="-").status == 413
