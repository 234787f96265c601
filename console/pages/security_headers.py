"""Headers of every response: nothing is loaded from elsewhere, nothing inline is run, nothing is framed or cached."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


LARGEST_BODY = 512 * 1024
"""The largest form in bytes; the largest is an uploaded policy."""


class SecurityHeaders:
    """Adds the headers to whatever an application answers, and refuses what is too large before it is read."""

    def __init__(self, app: ASGIApp, *, tls: bool) -> None:
        self._app = app
        self._tls = tls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
                if self._tls:
                    headers["Strict-Transport-Security"] = "max-age=31536000"
            await send(message)

        if scope["method"] not in {"GET", "HEAD"} and not _is_small(Headers(scope=scope)):
            answer = PlainTextResponse(f"a form has a length of at most {LARGEST_BODY} bytes\n", 413)
            await answer(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)


def _is_small(headers: Headers) -> bool:
    length = headers.get("content-length", "")
    return length.isdecimal() and int(length) <= LARGEST_BODY
