"""`/metrics` and `/health` over HTTP. Read only; the loop is never waited for."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.health_report import Report, metrics

PATIENCE_S = 30.0
"""A loop that has made no report for so long hangs."""


class Server:
    """Answers on threads of its own with the newest report."""

    def __init__(self, host: str, port: int) -> None:
        self._newest: Report | None = None
        self._at = time.monotonic()
        try:
            self._http = ThreadingHTTPServer((host, port), _handler(self._answer))
        except OSError as error:
            raise Problem(f"metrics.port: {host}:{port}: {error.strerror}") from None
        self._http.daemon_threads = True
        self.port = int(self._http.server_address[1])
        self._thread = threading.Thread(target=self._http.serve_forever, name="serve", daemon=True)
        self._thread.start()

    def show(self, report: Report) -> None:
        """Answer with this report from now on."""
        self._newest, self._at = report, time.monotonic()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(2.0)

    def _answer(self, path: str) -> tuple[int, str, str]:
        report = self._newest
        if path == "/metrics":
            return (200, "text/plain; version=0.0.4", metrics(report)) if report else (503, "text/plain", "")
        if path == "/health":
            wrong = ["starting"] if report is None else report.ill()
            if time.monotonic() - self._at > PATIENCE_S:
                wrong.append(f"the loop has not turned for {PATIENCE_S:g} s")
            body = json.dumps({"healthy": not wrong, "wrong": wrong})
            return (503 if wrong else 200), "application/json", f"{body}\n"
        return 404, "text/plain", "there are /metrics and /health\n"


def _handler(answer: Callable[[str], tuple[int, str, str]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, kind, text = answer(self.path)
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Requests are not logged."""

    return Handler
