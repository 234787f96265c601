"""Live updates as server-sent events: the changed part of a page, rendered, as soon as something has changed.

A viewer's page is only woken by what was published (console/state/changes.py): neither when an event comes nor how many
come tells about devices. Comments that keep the connection open come at fixed times.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from hushmq.console.pages.console_context import ConsoleContext
from hushmq.console.pages.devices_page import (
    live_device_counts,
    live_device_fragment,
    live_device_rows,
)
from hushmq.console.pages.ledger_page import live_ledger_fragment
from hushmq.console.pages.log_page import live_log_fragment
from hushmq.console.pages.promise_page import keep_evidence, live_promise_fragment
from hushmq.console.pages.releases_page import live_releases_fragment
from hushmq.console.pages.rollout_page import live_plan_fragment
from hushmq.console.pages.site_page import live_site_fragment
from hushmq.console.pages.visit import Visit, cookie_name

QUIET_S = 15.0
"""Something is sent after so many seconds, so that a closed connection is noticed; the page's clocks move on, too."""
COUNT_S = 2.0
"""Devices are counted for the filters of their table this often at most."""
MOST_READERS = 200
Fragment = Callable[[Visit], Awaitable[str]]

PUBLIC_FRAGMENTS: dict[str, tuple[Fragment, frozenset[str]]] = {
    "site": (live_site_fragment, frozenset()),
    "releases": (live_releases_fragment, frozenset({"release"})),
    "promise": (
        live_promise_fragment,
        frozenset({"release", "policy", "setting", "forecast", "ledger", "job"}),
    ),
    "ledger": (live_ledger_fragment, frozenset({"release", "job"})),
}
"""By page: what renders its changing part, and the changes that concern it; an empty set: all."""
OPERATOR_FRAGMENTS: dict[str, tuple[Fragment, frozenset[str]]] = {
    "log": (live_log_fragment, frozenset({"log"})),
    "plan": (live_plan_fragment, frozenset()),
}


def live_updates(context: ConsoleContext) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        session = context.sessions.find(
            request.cookies.get(cookie_name(context)), context.users.users(), used=False
        )
        if session is None:
            # 204 tells an event source not to come again.
            return PlainTextResponse("", 204)
        visit = Visit(request, session, context)
        page = str(request.path_params["page"])
        events = _events(visit, page)
        if events is None:
            return PlainTextResponse("operators only\n" if not visit.operator else "no such page\n", 403)
        if context.changes.readers >= MOST_READERS:
            return PlainTextResponse("too many pages are open\n", 503)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    return endpoint


def _events(visit: Visit, page: str) -> AsyncIterator[str] | None:
    if page == "promise" and visit.operator:
        keep_evidence(visit)
    if page in PUBLIC_FRAGMENTS:
        return _fragments(visit, *PUBLIC_FRAGMENTS[page])
    if not visit.operator:
        return None
    if page in OPERATOR_FRAGMENTS:
        return _fragments(visit, *OPERATOR_FRAGMENTS[page])
    if page == "devices":
        return _device_rows(visit)
    first, _, device = page.partition("/")
    if first == "devices" and device:

        async def render(_: Visit) -> str:
            return await live_device_fragment(visit, device)

        return _fragments(visit, render, frozenset({f"device:{device}", "policy", "setting"}))
    return None


def _still_there(visit: Visit) -> bool:
    """Whether the session goes on: a page that stays open is no reason for it to."""
    token = visit.request.cookies.get(cookie_name(visit.context))
    return visit.context.sessions.find(token, visit.context.users.users(), used=False) is not None


async def _fragments(visit: Visit, render: Fragment, concerns: frozenset[str]) -> AsyncIterator[str]:
    sent, changes = "", visit.context.changes
    with changes.reader(visit.session.role, _since(visit)) as reader:
        while _still_there(visit):
            changed = await reader.wait(QUIET_S)
            if changed and concerns and not changed & concerns:
                continue
            if not changed and not visit.operator:
                yield ": quiet\n\n"
                continue
            number, html = changes.number(visit.session.role), await render(visit)
            yield _event("html", html, number) if html != sent else ": quiet\n\n"
            sent = html
    yield _event("over", "")


async def _device_rows(visit: Visit) -> AsyncIterator[str]:
    changes, counted, chips = visit.context.changes, float("-inf"), ""
    with changes.reader("operator", _since(visit)) as reader:
        while _still_there(visit):
            changed = await reader.wait(QUIET_S)
            names = {one.removeprefix("device:") for one in changed if one.startswith("device:")}
            number, rows = changes.number("operator"), await live_device_rows(visit, names)
            yield _event("rows", json.dumps(rows), number) if rows else ": quiet\n\n"
            if time.monotonic() - counted > COUNT_S:
                counted, html = time.monotonic(), await live_device_counts(visit)
                if html != chips:
                    yield _event("chips", html)
                chips = html
    yield _event("over", "")


def _since(visit: Visit) -> int:
    """The number of the last change that the page has: of the last event, or of when it was rendered."""
    given = visit.request.headers.get("last-event-id") or visit.request.query_params.get("since", "")
    return (
        int(given)
        if given.isdecimal() and len(given) < 16
        else visit.context.changes.number(visit.session.role)
    )


def _event(name: str, text: str, number: int | None = None) -> str:
    lines = "".join(f"data: {line}\n" for line in text.replace("\r", "").split("\n"))
    numbered = "" if number is None else f"id: {number}\n"
    return f"event: {name}\n{numbered}{lines}\n"
