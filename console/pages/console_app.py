"""The application: which address leads where, and who gets there."""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from hushmq.console.access.users_file import UserRole
from hushmq.console.pages.console_context import ConsoleContext
from hushmq.console.pages.devices_page import device_page, devices_page
from hushmq.console.pages.ledger_page import download_ledger, ledger_page, verify_now
from hushmq.console.pages.live_updates import live_updates
from hushmq.console.pages.log_page import download_log, log_page
from hushmq.console.pages.login_page import login, login_form, logout
from hushmq.console.pages.plan_page import (
    plan_fragment,
    plan_page,
    policy_file,
    propose_policy,
)
from hushmq.console.pages.promise_page import download_disclosure, gather_evidence, promise_page
from hushmq.console.pages.releases_page import download_releases, releases_page
from hushmq.console.pages.render import STATIC
from hushmq.console.pages.rollout_page import (
    proposal_file,
    publish_policy,
    upload_policy,
    withdraw_proposal,
)
from hushmq.console.pages.security_headers import SecurityHeaders
from hushmq.console.pages.site_page import site_page
from hushmq.console.pages.visit import Handler, guarded

GUARDED: tuple[tuple[str, Handler, UserRole, tuple[str, ...]], ...] = (
    ("/", site_page, "viewer", ("GET",)),
    ("/devices", devices_page, "operator", ("GET",)),
    ("/devices/{device}", device_page, "operator", ("GET",)),
    ("/releases", releases_page, "viewer", ("GET",)),
    ("/releases/download", download_releases, "viewer", ("GET",)),
    ("/promise", promise_page, "viewer", ("GET",)),
    ("/promise/evidence", gather_evidence, "operator", ("POST",)),
    ("/promise/disclosure", download_disclosure, "viewer", ("GET",)),
    ("/plan", plan_page, "viewer", ("GET",)),
    ("/plan/forecast", plan_fragment, "viewer", ("GET",)),
    ("/plan/policy.json", policy_file, "viewer", ("GET",)),
    ("/plan/propose", propose_policy, "operator", ("POST",)),
    ("/plan/proposal.json", proposal_file, "operator", ("GET",)),
    ("/plan/withdraw", withdraw_proposal, "operator", ("POST",)),
    ("/plan/upload", upload_policy, "operator", ("POST",)),
    ("/plan/publish", publish_policy, "operator", ("POST",)),
    ("/ledger", ledger_page, "viewer", ("GET",)),
    ("/ledger/download", download_ledger, "viewer", ("GET",)),
    ("/ledger/verify", verify_now, "operator", ("POST",)),
    ("/log", log_page, "operator", ("GET",)),
    ("/log/download", download_log, "operator", ("GET",)),
)
"""Addresses behind a login: what answers, the least role, and the methods."""


def make_app(context: ConsoleContext) -> Starlette:
    """The console as an ASGI application."""
    routes = [
        Route("/health", _health),
        Route("/static/{name}", _static(context)),
        Route("/login", login_form(context), methods=["GET"]),
        Route("/login", login(context), methods=["POST"]),
        Route("/logout", logout(context), methods=["POST"]),
        Route("/live/{page:path}", live_updates(context)),
        *(
            Route(path, guarded(context, handler, role), methods=list(methods))
            for path, handler, role, methods in GUARDED
        ),
    ]
    tls = context.config.tls is not None
    middleware = [
        Middleware(SecurityHeaders, tls=tls),
        Middleware(TrustedHostMiddleware, allowed_hosts=context.config.allowed_hosts, www_redirect=False),
    ]
    return Starlette(routes=routes, middleware=middleware)


async def _health(_: Request) -> Response:
    """That the console runs, and nothing about the site: whoever asks is not logged in."""
    return JSONResponse({"ready": True})


def _static(context: ConsoleContext) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        name = str(request.path_params["name"])
        if name not in context.renderer.versions:
            return PlainTextResponse("not found\n", 404)
        kind = mimetypes.guess_type(name)[0]
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return FileResponse(STATIC / name, media_type=kind, headers=headers)

    return endpoint
