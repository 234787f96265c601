"""A site on disk: its description and, beside it, the secrets of everyone who may connect.

    site.toml             who and where (broker/provision/site_description.py)
    passwords/<name>      one random password a file
    authority/            the certificate authority, the broker's certificate, the identities' ones

Everything secret is readable by its owner only.
"""

from __future__ import annotations

import secrets
import shutil
from datetime import datetime
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import level
from hushmq.broker.provision import site_description as descriptions
from hushmq.broker.provision.access_rights import ROLES, Identity, Role, ServerTls, Site
from hushmq.broker.provision.authority import Authority
from hushmq.broker.provision.broker_process import write_private
from hushmq.broker.provision.site_description import Description, OwnFiles

CLUSTER = ".cluster"
"""The nodes' common password: no identity can be called so."""


class SiteFolder:
    """A site that has been made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.description = descriptions.read(path / "site.toml")

    @classmethod
    def create(cls, path: Path, description: Description) -> SiteFolder:
        """Make a site: the authority and a secret for everyone named. Problem when there is one."""
        if (path / "site.toml").exists():
            raise Problem(f"{path} holds a site already: change its site.toml, or choose another folder")
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptions.write(path / "site.toml", description)
        site = cls(path)
        site.complete()
        return site

    def complete(self) -> None:
        """Make every secret that the description asks for and that is not there yet.

        The broker gets a new certificate when its old one ends soon, or does not name all of its hosts.
        """
        (self.path / "passwords").mkdir(mode=0o700, exist_ok=True)
        if self.description.tls == "own-authority":
            folder = self.path / "authority"
            authority = Authority.load(folder) if (folder / "ca.key").exists() else Authority.create(folder)
            if not authority.serves(self.description.certified_hosts):
                authority.issue_server(self.description.certified_hosts)
        for role in ROLES:
            for name in self.description.named(role):
                if self.description.identify == "password":
                    self._make_password(name)
                elif not self.authority.files(name)[0].exists():
                    self.authority.issue_client(name)
        if self.description.nodes:
            self._make_password(CLUSTER)

    def _make_password(self, name: str) -> None:
        if not self.password_file(name).exists():
            write_private(self.password_file(name), secrets.token_urlsafe(24) + "\n")

    @property
    def authority(self) -> Authority:
        return Authority.load(self.path / "authority")

    def password_file(self, name: str) -> Path:
        return self.path / "passwords" / name

    def password(self, name: str) -> str:
        try:
            return self.password_file(name).read_text().strip()
        except OSError as error:
            raise Problem(f"password of {name}: {error.filename}: {error.strerror}") from None

    def site(self) -> Site:
        """Everyone who may connect, with their passwords."""
        by_password = self.description.identify == "password"
        return Site(
            self.description.cohort,
            tuple(
                Identity(role, name, self.password(name) if by_password else "")
                for role in ROLES
                for name in self.description.named(role)
            ),
        )

    def server_tls(self) -> ServerTls | None:
        """The broker's files, where they lie now."""
        match self.description.tls:
            case "none":
                return None
            case OwnFiles(certificate=certificate, key=key, ca=ca):
                return ServerTls(certificate, key, ca)
        authority = self.authority
        by_certificate = self.description.identify == "certificate"
        return ServerTls(
            *authority.server,
            authority.certificate,
            identities=authority.identities if by_certificate else None,
            revoked=authority.revoked if by_certificate else None,
        )

    def add(self, role: Role, name: str) -> None:
        """Let one more in."""
        try:
            level(name)
        except ValueError as error:
            raise Problem(str(error)) from None
        known = self.description.role(name)
        if known is not None:
            raise Problem(f"{name} is there already, as {known}")
        self.change(self.description.with_names(role, (*self.description.named(role), name)))
        self.complete()

    def revoke(self, name: str) -> None:
        """Let one in no more: out of the description, the password gone, the certificate called back."""
        role = self.description.role(name)
        if role is None:
            raise Problem(f"nobody is called {name!r} in {self.path / 'site.toml'}")
        names = tuple(each for each in self.description.named(role) if each != name)
        self.change(self.description.with_names(role, names))
        self.password_file(name).unlink(missing_ok=True)
        if self.description.tls == "own-authority" and self.authority.files(name)[0].exists():
            self.authority.revoke(name)

    def renew(self, name: str) -> None:
        """Sign a new certificate for one identity, who then needs it handed out; NATS lets the old one in no more."""
        if self.description.role(name) is None:
            raise Problem(f"nobody is called {name!r} in {self.path / 'site.toml'}")
        if self.description.identify != "certificate":
            raise Problem(f"{name} has a password, which does not end: revoke and add-device make a new one")
        self.authority.issue_client(name)

    def expires(self, name: str | None = None) -> datetime | None:
        """When the certificate of an identity ends, or (without a name) the broker's; None without one of ours."""
        by_certificate = name is None or self.description.identify == "certificate"
        if self.description.tls != "own-authority" or not by_certificate:
            return None
        return self.authority.expires(name)

    def change(self, description: Description) -> None:
        """Put another description in force for whoever reads it next."""
        descriptions.write(self.path / "site.toml", description)
        self.description = description

    def hand_out(self, name: str, folder: Path) -> str:
        """Copy what an identity needs into a folder; the `[broker]` section that goes with it."""
        if self.description.role(name) is None:
            raise Problem(f"nobody is called {name!r} in {self.path / 'site.toml'}")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = ["[broker]", f"urls = {descriptions.toml_value(self.description.urls)}"]
        if self.description.identify == "password":
            write_private(folder / "password", self.password(name) + "\n")
            lines += [f'username = "{name}"', f'password_file = "{folder / "password"}"']
        tls = self.server_tls()
        if tls is not None:
            shutil.copyfile(tls.ca, folder / "ca.pem")
            lines += ["[broker.tls]", f'ca = "{folder / "ca.pem"}"']
        if self.description.identify == "certificate":
            certificate, key = self.authority.files(name)
            shutil.copyfile(certificate, folder / "certificate.pem")
            write_private(folder / "certificate.key", key.read_text())
            lines += [
                f'certificate = "{folder / "certificate.pem"}"',
                f'key = "{folder / "certificate.key"}"',
            ]
        return "\n".join(lines) + "\n"
