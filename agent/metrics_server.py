"""Serves a device's `/metrics` for Prometheus, if a port is configured."""

from __future__ import annotations

from collections.abc import Callable

from hushmq.agent.device_report import METRICS_TYPE, Report, metrics
from hushmq.broker.service.http_server import Answer, HttpServer


def serve_metrics(host: str, port: int, ask: Callable[[], Report | None]) -> HttpServer:
    """Serve the metrics; `ask` gets the report from the agent's loop, None when it does not answer in time."""

    def answer(path: str) -> Answer:
        if path != "/metrics":
            return Answer(404, "not found; try /metrics\n")
        report = ask()
        return Answer(503, "busy\n") if report is None else Answer(200, metrics(report), METRICS_TYPE)

    return HttpServer(host, port, answer)
