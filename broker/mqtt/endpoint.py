"""A broker's address, and the credentials with which to connect to it."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from urllib.parse import urlsplit

from hushmq.broker.contract.problem import Problem

PORTS = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}
"""By scheme: the port of an address that names none. ws and wss are MQTT over WebSocket, without and with TLS."""
WEBSOCKET_PATH = "/mqtt"
"""Where brokers take WebSockets; NATS only there."""


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS with the system's certificate authorities or the given one; mutual TLS with a certificate and its key."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return a new context, so that a renewed certificate is used from the next connection on.

        Raises Problem when a file is missing or is not a PEM file.
        """
        if (self.certificate is None) != (self.key is None):
            raise Problem(
                "TLS: a certificate needs its key, and a key its certificate; one of them is missing"
            )
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except OSError as error:
            raise Problem(f"TLS: ca {self.ca}: {_reason(error)}") from None
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key)
            except OSError as error:
                raise Problem(
                    f"TLS: certificate {self.certificate}, key {self.key}: {_reason(error)}"
                ) from None
        return context


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"not a valid PEM file ({(error.reason or 'unreadable').lower().replace('_', ' ')})"
    return error.strerror or type(error).__name__


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One broker's address, and the identity with which to connect."""

    host: str
    port: int
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Tls | None = None
    path: str | None = None
    """Of MQTT over WebSocket: the path of the address; None for MQTT over TCP."""

    @classmethod
    def parse(
        cls, url: str, *, username: str | None = None, password: str | None = None, tls: Tls | None = None
    ) -> Endpoint:
        """Return the endpoint of `mqtt[s]://host[:port]` or `ws[s]://host[:port][/path]`; raise Problem for others."""
        want = "write mqtt://host[:port], or mqtts://host[:port] for TLS; ws:// or wss:// for WebSocket"
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise Problem(f"broker address: {error}; {want}") from None
        if parts.username is not None or parts.password is not None:
            raise Problem(
                f"broker address: it contains credentials, which have settings of their own; {want}"
            )
        websocket = parts.scheme in {"ws", "wss"}
        stray = parts.query or parts.fragment or (parts.path.strip("/") and not websocket)
        if parts.scheme not in PORTS or not host or stray:
            raise Problem(f"broker address {url!r} is not valid; {want}")
        if port == 0:
            raise Problem(f"broker address {url!r}: port 0 cannot be connected to; {want}")
        secure = parts.scheme in {"mqtts", "wss"}
        if tls is not None and not secure:
            raise Problem(f"broker address {url!r}: TLS settings are given, so write {parts.scheme}s://")
        path = (parts.path if parts.path.strip("/") else WEBSOCKET_PATH) if websocket else None
        return cls(
            host,
            port or PORTS[parts.scheme],
            username=username,
            password=password,
            tls=(tls or Tls()) if secure else None,
            path=path,
        )

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "mqtt" if self.path is None else "ws"
        return f"{scheme}{'s' if self.tls else ''}://{host}:{self.port}{self.path or ''}"

    @property
    def exposes_password(self) -> bool:
        """Whether its password crosses a network in clear text."""
        return self.password is not None and self.tls is None and not is_loopback(self.host)

    def secret_client_id(self, name: str) -> str:
        """Return a client id that begins with `name` and that nobody can guess without this identity's secret.

        A client that connects with another's client id takes over its session and queued messages, and not every
        broker ties client ids to identities (NATS does not). The same identity always gets the same client id.
        """
        secret = b""
        if self.password is not None:
            secret = self.password.encode()
        elif self.tls is not None and self.tls.key is not None:
            secret = self.tls.key.read_bytes()
        if not secret:
            return name
        return f"{name}-{blake2b(name.encode(), key=blake2b(secret).digest(), digest_size=8).hexdigest()}"


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_clear_text(endpoints: Iterable[Endpoint], *, setting: str, risk: str) -> None:
    """Raise Problem where a password would cross a network in clear text.

    `setting` names where the address is given, and `risk` what one writes to accept that.
    """
    for endpoint in endpoints:
        if endpoint.exposes_password:
            scheme = "mqtts" if endpoint.path is None else "wss"
            raise Problem(
                f"{setting}: {endpoint.url} would send the password over the network in clear text: "
                f"write {scheme}://, or accept the risk with {risk}"
            )
