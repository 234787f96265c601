"""A request by somebody who is logged in, and the rules that every request keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from hushmq.broker.contract.problem import Problem
from hushmq.console.access.sessions import Session
from hushmq.console.access.users_file import UserRole
from hushmq.console.pages.console_context import ConsoleContext

PAGES: tuple[tuple[str, str, UserRole], ...] = (
    ("/", "Site", "viewer"),
    ("/devices", "Devices", "operator"),
    ("/releases", "Releases", "viewer"),
    ("/promise", "Promise", "viewer"),
    ("/plan", "Plan", "viewer"),
    ("/ledger", "Ledger", "viewer"),
    ("/log", "Log", "operator"),
)
"""The pages of the menu: address, title, and the least role that sees it."""


def cookie_name(context: ConsoleContext) -> str:
    """The session's cookie; under TLS its name has browsers refuse it from anywhere else."""
    return "__Host-hushmq" if context.config.tls is not None else "hushmq"


@dataclass(frozen=True, slots=True)
class Visit:
    """A request, and who makes it."""

    request: Request
    session: Session
    context: ConsoleContext

    @property
    def operator(self) -> bool:
        return self.session.role == "operator"

    def query(self, name: str, among: Any, default: str) -> str:
        """A parameter of the address if it has one of these values; else the default."""
        given = self.request.query_params.get(name, default)
        return given if given in among else default

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page with the menu that this user has."""
        menu = [(path, title) for path, title, role in PAGES if self.operator or role == "viewer"]
        text = self.context.renderer.page(
            template,
            visit=self,
            menu=menu,
            here=self.request.url.path,
            cohort=self.context.config.cohort,
            user=self.session.name,
            role=self.session.role,
            csrf=self.session.csrf,
            since=self.context.changes.number(self.session.role),
            **values,
        )
        return HTMLResponse(text, status)

    def fragment(self, template: str, **values: Any) -> str:
        """A part of a page, for a live update."""
        return self.context.renderer.page(template, csrf=self.session.csrf, **values)


Handler = Callable[[Visit], Awaitable[Response]]


def guarded(
    context: ConsoleContext, handler: Handler, role: UserRole, *, views: bool = True
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that only users with this role reach, and whose forms come from our own pages."""

    async def endpoint(request: Request) -> Response:
        token = request.cookies.get(cookie_name(context))
        session = context.sessions.find(token, context.users.users())
        if session is None:
            where = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            target = "/login" if where == "/" else f"/login?next={quote(where, safe='')}"
            return RedirectResponse(target, 303)
        visit = Visit(request, session, context)
        if role == "operator" and not visit.operator:
            context.record("login", request.url.path, "was kept out: operators only", who=session.name)
            return visit.page("kept_out.html", status=403)
        if request.method == "POST" and not await _is_ours(request, session):
            return visit.page("problem.html", status=403, words="The form was not sent from this console.")
        if views and request.method == "GET":
            context.viewed(session, request.url.path)
        try:
            return await handler(visit)
        except Problem as problem:
            # A viewer is not told more than that: the words may name what only operators know.
            words = str(problem) if visit.operator else "This cannot be shown now."
            return visit.page("problem.html", status=503, words=words)

    return endpoint


async def _is_ours(request: Request, session: Session) -> bool:
    if not same_origin(request):
        return False
    token = request.headers.get("x-csrf-token")
    if token is None:
        form = await request.form()
        token = str(form.get("csrf", ""))
    return session.sent_from_here(token)


def same_origin(request: Request) -> bool:
    """Whether a browser says that the request comes from one of our own pages; one that says nothing is let through."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in {"same-origin", "none"}:
        return False
    origin = request.headers.get("origin")
    return origin is None or origin == f"{request.url.scheme}://{request.headers.get('host', '')}"
