"""Every broker over every transport: TCP and WebSocket, with and without TLS, with the newest MQTT that it speaks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.access_rights import ServerTls, Site
from hushmq.broker.provision.authority import Authority
from hushmq.broker.provision.broker_process import BrokerProcess, free_port
from hushmq.broker.provision.mosquitto import MosquittoServer
from hushmq.broker.provision.nats import NatsServer
from tests.broker.plain import PATIENCE
from tests.brokers import require_mosquitto

T = Topics("test")
SPEAKS = {NatsServer: "3.1.1", MosquittoServer: "5"}
"""The newest MQTT of each broker."""


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def server_tls(request: pytest.FixtureRequest, tmp_path: Path) -> ServerTls | None:
    if not request.param:
        return None
    authority = Authority.create(tmp_path / "authority")
    authority.issue_server(["127.0.0.1"])
    return ServerTls(*authority.server, authority.certificate)


@pytest.fixture(params=SPEAKS, ids=lambda kind: kind.__name__)
def server(
    request: pytest.FixtureRequest, site: Site, tmp_path: Path, server_tls: ServerTls | None
) -> Iterator[BrokerProcess]:
    if request.param is MosquittoServer:
        require_mosquitto()
    with request.param(
        site, tmp_path / "broker", tls=server_tls, websocket_port=free_port("127.0.0.1")
    ) as started:
        yield started


@pytest.mark.slow
def test_a_message_goes_through_and_the_version_is_negotiated(server: BrokerProcess) -> None:
    """Published over TCP, read over WebSocket and back; the log says which MQTT the broker speaks."""
    assert server.websocket_port is not None
    for over in ("tcp", "websocket"):
        log, got = structlog.testing.CapturingLogger(), threading.Event()
        tcp = server.endpoint("ops")
        web = replace(server.endpoint("wearable-1"), port=server.websocket_port, path="/mqtt")
        writer_at, reader_at = (
            (tcp, web)
            if over == "tcp"
            else (replace(tcp, port=web.port, path="/mqtt"), replace(web, port=tcp.port, path=None))
        )
        payload = f"the policy over {over}, {'x' * 40_000}".encode()

        def received(
            _topic: str, what: bytes, _retained: bool, want: bytes = payload, got: threading.Event = got
        ) -> None:
            if what == want:
                got.set()

        writer = Connection(endpoints=[writer_at], client_id=f"writer-{over}", log=log)
        reader = Connection(
            endpoints=[reader_at],
            client_id=f"reader-{over}",
            subscriptions=[T.policy],
            on_message=received,
            log=log,
        )
        try:
            for connection in (writer, reader):
                connection.start()
                assert connection.wait_connected(PATIENCE), connection.last_error
            writer.publish(T.policy, payload, retain=True)
            assert got.wait(PATIENCE)
        finally:
            writer.stop()
            reader.stop()
        connected = [call.kwargs for call in log.calls if call.args == ("broker_connected",)]
        assert {fields["mqtt"] for fields in connected} == {SPEAKS[type(server)]}
        assert {fields["broker"] for fields in connected} == {writer_at.url, reader_at.url}


@pytest.mark.slow
def test_what_is_no_websocket_is_named(nats: BrokerProcess) -> None:
    """A WebSocket address that leads to the port of plain MQTT gives a reason in words."""
    wrong = replace(nats.endpoint("ops"), path="/mqtt")
    connection = Connection(endpoints=[wrong], client_id="ops")
    connection.start()
    try:
        assert not connection.wait_connected(1.0)
        assert "WebSocket" in (connection.last_error or "")
    finally:
        connection.stop()
