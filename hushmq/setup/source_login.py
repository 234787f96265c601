"""How a device logs in at the local broker that its values come from, as the options of `hushmq device add` say it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hushmq.broker.commands.client_options import CLEAR_TEXT, add_clear_text
from hushmq.broker.contract.problem import Problem
from hushmq.broker.mqtt.endpoint import Endpoint, Tls, refuse_clear_text
from hushmq.broker.service.settings_file import read_secret

PASSWORD = "source-password"  # noqa: S105  # a file's name
CA = "source-ca.pem"


@dataclass(frozen=True, slots=True)
class SourceLogin:
    """The identity at a local broker, and the authority that signed the broker's certificate."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    clear_text: bool = False

    @classmethod
    def of(cls, args: argparse.Namespace) -> SourceLogin:
        """Return what the options say; raise Problem where a file cannot be used."""
        if (args.source_user is None) != (args.source_password_file is None):
            raise Problem("--source-user and --source-password-file go together: give both or neither")
        password = None
        if args.source_password_file is not None:
            password = read_secret(args.source_password_file, "--source-password-file")
        return cls(args.source_user, password, args.source_ca, args.password_in_clear_text)

    @property
    def files(self) -> dict[str, str]:
        """The files that go with the device's settings."""
        found: dict[str, str] = {}
        if self.password is not None:
            found[PASSWORD] = self.password + "\n"
        if self.ca is not None:
            found[CA] = self.ca.read_text()
        return found

    def topic(self, where: str) -> dict[str, Any]:
        """Return the settings of `URL/TOPIC`; raise Problem where it names none or the password would be exposed."""
        scheme, _, rest = where.partition("://")
        host, _, topic = rest.partition("/")
        if not host or not topic:
            raise Problem("--source: it names no topic: write mqtt=mqtt://host[:port]/the/topic")
        url = f"{scheme}://{host}"
        tls = None if self.ca is None else Tls(self.ca)
        try:
            endpoint = Endpoint.parse(url, username=self.username, password=self.password, tls=tls)
            if endpoint.tls is not None:
                endpoint.tls.context()
        except Problem as problem:
            raise Problem(f"--source: {problem}") from None
        if not self.clear_text:
            refuse_clear_text([endpoint], setting="--source", risk=CLEAR_TEXT)
        found: dict[str, Any] = {"url": url, "topic": topic}
        if self.password is not None:
            found |= {"username": self.username, "password_file": PASSWORD}
        if endpoint.exposes_password:
            found["password_in_clear_text"] = True
        if self.ca is not None:
            found["tls.ca"] = CA
        return found


NO_LOGIN = SourceLogin()


def add_source_login(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source-user", metavar="NAME", help="user name at the broker of --source mqtt=")
    parser.add_argument(
        "--source-password-file",
        type=Path,
        metavar="FILE",
        help="a file with the password there, mode 600; it goes into the bundle",
    )
    parser.add_argument(
        "--source-ca",
        type=Path,
        metavar="FILE",
        help="certificate authority that signed that broker's certificate, PEM (default: the system's)",
    )
    add_clear_text(parser)
