"""What asks for health gets every problem; what asks for life only learns whether the loop turns."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from hushmq.calibrator import health_server
from hushmq.calibrator.health_report import HealthReport
from hushmq.calibrator.health_server import HealthServer
from tests.calibrator.test_operations import fetch


@pytest.fixture
def server() -> Iterator[HealthServer]:
    found = HealthServer("127.0.0.1", 0)
    yield found
    found.stop()


def test_storage_that_is_away_is_no_reason_to_start_again(server: HealthServer) -> None:
    """The calibrator waits for its storage by itself."""
    server.show(HealthReport.waiting_for("the disk is full"))
    assert fetch(server.port, "/health")[0] == 503
    code, body = fetch(server.port, "/live")
    assert code == 200
    assert json.loads(body) == {"live": True, "wrong": []}


def test_a_loop_that_hangs_is_one(server: HealthServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that is too old: neither healthy nor live."""
    monkeypatch.setattr(health_server, "PATIENCE_S", 0.0)
    for path in ("/health", "/live"):
        code, body = fetch(server.port, path)
        assert code == 503
        assert "the loop has not turned for 0 s" in json.loads(body)["wrong"]
