"""A browser's requests to the console's application, without a socket."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def csrf(self) -> str:
        """The token of the page's forms."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.text)
        assert found is not None
        return found[1]


@dataclass
class AsgiClient:
    """One browser: it keeps cookies, and says where its requests come from."""

    app: Starlette
    address: str = "127.0.0.1"
    host: str = "127.0.0.1"
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Answer:
        return asyncio.run(self.request("GET", path, headers=headers))

    def post(self, path: str, form: dict[str, str], **headers: str) -> Answer:
        return asyncio.run(self.request("POST", path, urlencode(form).encode(), headers))

    def login(self, name: str, password: str) -> Answer:
        return self.post("/login", {"name": name, "password": password})

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """One request, and its whole answer."""
        given = {
            "host": self.host,
            "origin": f"http://{self.host}",
            "content-length": str(len(body)),
            "content-type": "application/x-www-form-urlencoded",
            "cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()),
            **{name.replace("_", "-"): value for name, value in (headers or {}).items()},
        }
        target, _, query = path.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": target,
            "raw_path": target.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items() if value != "-"],
            "client": (self.address, 1),
            "server": (self.host, 80),
        }
        sent: list[dict[str, Any]] = []
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return unread.pop() if unread else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        found = [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]
        for name, value in found:
            if name == "set-cookie":
                key, _, rest = value.partition("=")
                self.cookies[key] = rest.partition(";")[0]
        text = b"".join(message.get("body", b"") for message in sent[1:])
        return Answer(sent[0]["status"], dict(found), text)
