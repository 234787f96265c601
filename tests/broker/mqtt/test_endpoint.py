"""Addresses and credentials: what is read, what is refused, and that secrets stay unsaid."""

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
    ],
)
def test_an_address_is_read(url: str, host: str, port: int, tls: Tls | None) -> None:
    """Scheme, host and port have their MQTT defaults, and the address can be written again."""
    endpoint = Endpoint.parse(url)
    assert (endpoint.host, endpoint.port, endpoint.tls) == (host, port, tls)
    assert Endpoint.parse(endpoint.url) == endpoint


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "is none"),
        ("broker.lan", "is none"),
        ("http://broker.lan", "is none"),
        ("mqtt://", "is none"),
        ("mqtt://broker.lan/topic", "is none"),
        ("mqtt://broker.lan?x=1", "is none"),
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
    """A certificate authority for an address without TLS is a mistake that would send the password in clear."""
    with pytest.raises(Problem, match="write mqtts://"):
        Endpoint.parse("mqtt://broker.lan", tls=Tls(ca=tmp_path / "ca.pem"))


def test_the_password_is_in_no_repr() -> None:
    """An endpoint may be printed."""
    assert "hidden" not in repr(Endpoint("h", 1, "u", "hidden"))


def test_bad_tls_files_are_named(tmp_path: Path) -> None:
    """Missing, foreign or half-given files are refused with the file's name."""
    authority = Authority.create(tmp_path / "authority")
    authority.issue_client("me")
    authority.issue_client("you")
    certificate, _ = authority.files("me")
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("rubbish")
    for tls, message in (
        (Tls(ca=tmp_path / "none.pem"), "none.pem: No such file"),
        (Tls(ca=rubbish), "rubbish.pem: no PEM file"),
        (Tls(certificate=certificate), "come together"),
        (Tls(certificate=certificate, key=rubbish), "rubbish.pem: no PEM file"),
        (
            Tls(certificate=certificate, key=authority.files("you")[1]),
            "you.key: no PEM file of that kind .key values",
        ),
    ):
        with pytest.raises(Problem, match=message):
            tls.context()
