"""Addresses and credentials: which are accepted, which are refused, and that secrets are never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.broker.mqtt.endpoint import Endpoint, Tls
from hushmq.broker.provision.authority import Authority


@pytest.mark.parametrize(
    ("url", "host", "port", "tls"),
    [
        ("mqtt://broker.lan", "broker.lan", 1883, None),
        ("mqtt://broker.lan:1999", "broker.lan", 1999, None),
        ("mqtts://broker.lan", "broker.lan", 8883, Tls()),
        ("mqtts://[::1]:42/", "::1", 42, Tls()),
        ("ws://broker.lan", "broker.lan", 80, None),
        ("wss://broker.lan:8443/behind/a/proxy", "broker.lan", 8443, Tls()),
    ],
)
def test_an_address_is_read(url: str, host: str, port: int, tls: Tls | None) -> None:
    """Scheme, host and port have their MQTT defaults, and `url` gives the address again."""
    endpoint = Endpoint.parse(url)
    assert (endpoint.host, endpoint.port, endpoint.tls) == (host, port, tls)
    assert Endpoint.parse(endpoint.url) == endpoint


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "is not valid"),
        ("broker.lan", "is not valid"),
        ("http://broker.lan", "is not valid"),
        ("mqtt://", "is not valid"),
        ("mqtt://broker.lan/topic", "is not valid"),
        ("mqtt://broker.lan?x=1", "is not valid"),
        ("ws://broker.lan/mqtt?x=1", "is not valid"),
        ("mqtt://broker.lan:0", "port 0"),
        ("mqtt://broker.lan:65536", "out of range"),
        ("mqtt://broker.lan:x", "x"),
        ("mqtt://[::1", "IPv6"),
        ("mqtt://me:hidden@broker.lan", "credentials"),
    ],
)
def test_a_bad_address_is_refused(url: str, message: str) -> None:
    """One line that says what is wrong and what to write; credentials are not repeated."""
    with pytest.raises(Problem, match=message) as caught:
        Endpoint.parse(url)
    assert "mqtts://host[:port]" in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_tls_settings_need_a_tls_address(tmp_path: Path) -> None:
    """A certificate authority with an address without TLS is refused: the password would be sent in clear text."""
    with pytest.raises(Problem, match="write mqtts://"):
        Endpoint.parse("mqtt://broker.lan", tls=Tls(ca=tmp_path / "ca.pem"))
    with pytest.raises(Problem, match="write wss://"):
        Endpoint.parse("ws://broker.lan", tls=Tls(ca=tmp_path / "ca.pem"))


def test_a_websocket_has_a_path() -> None:
    """NATS takes WebSockets at /mqtt only, which is what an address without a path means."""
    assert Endpoint.parse("ws://broker.lan").path == "/mqtt"
    assert Endpoint.parse("wss://broker.lan/behind").path == "/behind"
    assert Endpoint.parse("mqtts://broker.lan").path is None


def test_the_password_is_in_no_repr() -> None:
    """The repr of an endpoint does not contain its password."""
    assert "hidden" not in repr(Endpoint("h", 1, "u", "hidden"))


def test_bad_tls_files_are_named(tmp_path: Path) -> None:
    """A missing or invalid file, or a certificate without key, is refused with the file's name."""
    authority = Authority.create(tmp_path / "authority")
    authority.issue_client("me")
    authority.issue_client("you")
    certificate, _ = authority.files("me")
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("rubbish")
    for tls, message in (
        (Tls(ca=tmp_path / "none.pem"), "none.pem: No such file"),
        (Tls(ca=rubbish), "rubbish.pem: not a valid PEM file"),
        (Tls(certificate=certificate), "a certificate needs its key"),
        (Tls(certificate=certificate, key=rubbish), "rubbish.pem: not a valid PEM file"),
        (
            Tls(certificate=certificate, key=authority.files("you")[1]),
            "you.key: not a valid PEM file .key values",
        ),
    ):
        with pytest.raises(Problem, match=message):
            tls.context()


@pytest.mark.parametrize(
    ("url", "exposed"),
    [
        ("mqtt://broker.lan", True),
        ("ws://broker.lan", True),
        ("mqtt://192.168.1.2", True),
        ("mqtt://0.0.0.0", True),
        ("mqtt://[fe80::1]", True),
        ("mqtt://localhost.example", True),
        ("mqtts://broker.lan", False),
        ("wss://broker.lan", False),
        ("mqtt://127.0.0.1", False),
        ("mqtt://127.8.0.1", False),
        ("mqtt://[::1]", False),
        ("ws://LOCALHOST", False),
    ],
)
def test_a_password_is_exposed_without_tls_and_beyond_loopback(url: str, exposed: bool) -> None:
    word = "hidden"
    assert Endpoint.parse(url, username="u", password=word).exposes_password is exposed
    assert not Endpoint.parse(url, username="u").exposes_password
