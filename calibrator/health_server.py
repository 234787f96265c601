"""`/metrics`, `/health` and `/live` over HTTP, from the newest report: a request never waits for the calibrator's loop.

`/health` says whether all is well, `/live` only whether the loop turns: to start a program again helps against nothing
else that `/health` may name.
"""

from __future__ import annotations

import json
import time
from typing import Protocol

from prometheus_client import CONTENT_TYPE_LATEST

from hushmq.broker.service.http_server import Answer, HttpServer

PATIENCE_S = 30.0
"""A loop that has made no report for so long hangs."""


class Report(Protocol):
    """The state of what is served: a calibrator with its cohort, or a worker with many."""

    def problems(self) -> list[str]:
        """What is wrong, in words; an empty list while all is well."""

    def stated(self) -> list[str]:
        """What must be known and cannot be mended."""

    def metrics(self) -> str:
        """In Prometheus's text format."""


class HealthServer:
    """Serves the report shown last."""

    def __init__(self, host: str, port: int) -> None:
        self._newest: Report | None = None
        self._at = time.monotonic()
        self._http = HttpServer(host, port, self._answer)
        self.port = self._http.port

    def show(self, report: Report) -> None:
        """Answer with this report from now on."""
        self._newest, self._at = report, time.monotonic()

    def stop(self) -> None:
        self._http.stop()

    def _answer(self, path: str) -> Answer:
        report = self._newest
        if path == "/metrics":
            return Answer(200, report.metrics(), CONTENT_TYPE_LATEST) if report else Answer(503, "")
        hangs = [f"the loop has not turned for {PATIENCE_S:g} s"] * (time.monotonic() - self._at > PATIENCE_S)
        if path == "/live":
            return _verdict({"live": not hangs, "wrong": hangs}, right=not hangs)
        if path == "/health":
            wrong = (["starting"] if report is None else report.problems()) + hangs
            stated = [] if report is None else report.stated()
            return _verdict({"healthy": not wrong, "wrong": wrong, "stated": stated}, right=not wrong)
        return Answer(404, "there are /metrics, /health and /live\n")


def _verdict(body: dict[str, object], *, right: bool) -> Answer:
    return Answer(200 if right else 503, f"{json.dumps(body)}\n", "application/json")
