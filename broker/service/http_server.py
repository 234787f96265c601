"""A small HTTP server for `/metrics` and `/health`: GET only, one thread per request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hushmq.broker.contract.problem import Problem

TIMEOUT_S = 2.0
"""Seconds that a client may take to send its request, or to read the answer."""

PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to one request."""

    code: int
    body: str
    content_type: str = PLAIN


class HttpServer:
    """Answers every GET with `answer(path)`, which is called on the request's thread."""

    def __init__(self, host: str, port: int, answer: Callable[[str], Answer]) -> None:
        """Start serving; port 0 means any free port. Raises Problem, naming `metrics.port`, if it cannot be opened."""
        try:
            self._http = ThreadingHTTPServer((host, port), _handler(answer))
        except OSError as error:
            raise Problem(f"metrics.port: {host}:{port}: {error.strerror}") from None
        self._http.daemon_threads = True
        self.port = int(self._http.server_address[1])
        self._thread = threading.Thread(target=self._http.serve_forever, name="http", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the port, without waiting for requests in progress."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(TIMEOUT_S)


def _handler(answer: Callable[[str], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = TIMEOUT_S

        def do_GET(self) -> None:
            found = answer(self.path)
            body = found.body.encode()
            with suppress(OSError):  # the client may have gone away
                self.send_response(found.code)
                self.send_header("Content-Type", found.content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Requests are not logged."""

    return Handler
