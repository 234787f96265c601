"""The HTTP server of both daemons."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.broker.service.http_server import TIMEOUT_S, Answer, HttpServer


@pytest.fixture
def server() -> Iterator[HttpServer]:
    server = HttpServer("127.0.0.1", 0, lambda path: Answer(200 if path == "/ε" else 404, f"ε of {path}\n"))
    yield server
    server.stop()


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str, str | None]:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode(), response.getheader("Content-Type")
    finally:
        connection.close()


def test_it_answers_with_what_it_is_given(server: HttpServer) -> None:
    assert ask(server.port, "/other") == (404, "ε of /other\n", "text/plain; charset=utf-8")


def test_it_is_read_only(server: HttpServer) -> None:
    assert ask(server.port, "/", "POST")[0] == 501


@pytest.mark.slow
def test_a_silent_client_delays_no_other(server: HttpServer) -> None:
    """Other clients are answered meanwhile, and the silent one is disconnected."""
    with socket.create_connection(("127.0.0.1", server.port)) as silent:
        silent.settimeout(10 * TIMEOUT_S)
        began = time.monotonic()
        assert ask(server.port, "/")[0] == 404
        assert time.monotonic() - began < TIMEOUT_S
        assert silent.recv(1) == b""


def test_a_client_that_goes_away_leaves_no_trace(
    server: HttpServer, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.port)) as hasty:
            hasty.sendall(b"GET / HTTP/1.0\r\n\r\n")
            hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    assert ask(server.port, "/")[0] == 404
    assert capfd.readouterr().err == ""


def test_a_port_in_use_is_a_problem_and_a_stopped_server_frees_it(server: HttpServer) -> None:
    with pytest.raises(Problem, match=rf"metrics\.port: 127\.0\.0\.1:{server.port}: "):
        HttpServer("127.0.0.1", server.port, lambda _: Answer(200, ""))
    server.stop()
    HttpServer("127.0.0.1", server.port, lambda _: Answer(200, "")).stop()
