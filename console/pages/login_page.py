"""Logging in and out."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from hushmq.console.access.sessions import LONGEST_S
from hushmq.console.pages.console_context import ConsoleContext
from hushmq.console.pages.visit import cookie_name, same_origin

Endpoint = Callable[[Request], Awaitable[Response]]


def login_form(context: ConsoleContext) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return _form(context, request.query_params.get("next", ""))

    return endpoint


def _form(context: ConsoleContext, target: str, words: str = "", status: int = 200) -> Response:
    return HTMLResponse(
        context.renderer.page("login.html", words=words, target=target, cohort=context.config.cohort), status
    )


def login(context: ConsoleContext) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if not same_origin(request):
            return _form(context, "", "The form was not sent from this console.", 403)
        form = await request.form()
        name, password = str(form.get("name", ""))[:64], str(form.get("password", ""))
        target = str(form.get("next", ""))
        address = request.client.host if request.client else "unknown"
        wait = context.limits.wait_s(address, name)
        if wait > 0:
            words = f"Too many failed attempts: try again in {math.ceil(wait / 60)} min."
            answer = _form(context, target, words, 429)
            answer.headers["Retry-After"] = str(math.ceil(wait))
            return answer
        # Counted before it is checked: attempts that run at the same time count, too.
        context.limits.failed(address, name)
        user = await to_thread.run_sync(context.users.login, name, password)
        if user is None:
            context.record("login", address, "failed to log in", who=_shown(context, name))
            return _form(context, target, "The name or the password is wrong.", 401)
        context.limits.succeeded(address, name)
        context.sessions.end(request.cookies.get(cookie_name(context)))
        token, session = context.sessions.begin(user)
        context.record("login", address, f"logged in as {user.role}", who=session.name)
        response = RedirectResponse(_inside(target), 303)
        response.set_cookie(
            cookie_name(context),
            token,
            max_age=int(LONGEST_S),
            path="/",
            secure=context.config.tls is not None,
            httponly=True,
            samesite="strict",
        )
        return response

    return endpoint


def _shown(context: ConsoleContext, name: str) -> str:
    """The name of a user; what somebody else typed, perhaps a password in the wrong field, is not repeated."""
    return name if name in context.users.users() else "unknown"


def _inside(target: str) -> str:
    """A page of this console to go on to; anything else leads to the first page."""
    inside = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if inside else "/"


def logout(context: ConsoleContext) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        token = request.cookies.get(cookie_name(context))
        session = context.sessions.find(token, context.users.users())
        if session is not None:
            form = await request.form()
            if not (same_origin(request) and session.sent_from_here(str(form.get("csrf", "")))):
                return RedirectResponse("/", 303)
            context.sessions.end(token)
            context.record("login", "console", "logged out", who=session.name)
        response = RedirectResponse("/login", 303)
        response.delete_cookie(cookie_name(context), path="/")
        return response

    return endpoint
