"""A site on disk: its description and, beside it, the secrets of all identities.

    site.toml             the description (broker/provision/site_description.py)
    passwords/<name>      one random password per file
    authority/            the certificate authority, the broker's certificate, the identities' certificates

Secret files are readable only by their owner.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import level
from hushmq.broker.mqtt.endpoint import Endpoint, Tls
from hushmq.broker.provision import site_description as descriptions
from hushmq.broker.provision.access_rights import ROLES, Identity, Role, ServerTls, Site
from hushmq.broker.provision.authority import Authority
from hushmq.broker.provision.broker_process import write_private
from hushmq.broker.provision.site_description import CertificateFiles, Description

LOCAL = "127.0.0.1"
"""The address of this machine to itself."""
PUBLIC = frozenset({"ca.pem", "certificate.pem"})
"""Files of an identity that are no secret."""
CLUSTER = ".cluster"
"""File name of the password that the nodes of a cluster share; with its dot it is no identity's name."""


class SiteFolder:
    """An existing site."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.description = descriptions.read(path / "site.toml")

    @classmethod
    def create(cls, path: Path, description: Description) -> SiteFolder:
        """Create a site: the authority, and a secret for every identity; raise Problem when the folder has a site."""
        if (path / "site.toml").exists():
            raise Problem(f"{path} already holds a site: change its site.toml, or choose another folder")
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptions.write(path / "site.toml", description)
        except OSError as error:
            raise Problem(f"{path}: no folder can be made there: {error.strerror}") from None
        site = cls(path)
        site.complete()
        return site

    def complete(self) -> None:
        """Create every secret that the description requires and that is missing.

        The broker gets a new certificate when the old one expires soon or does not name all its hosts.
        """
        (self.path / "passwords").mkdir(mode=0o700, exist_ok=True)
        if self.description.tls == "own-authority":
            folder = self.path / "authority"
            authority = Authority.load(folder) if (folder / "ca.key").exists() else Authority.create(folder)
            if not authority.serves(self.description.certified_hosts):
                authority.issue_server(self.description.certified_hosts)
        for role in ROLES:
            for name in self.description.named(role):
                self._make_secret(name)
        if self.description.nodes:
            self._make_password(CLUSTER)

    def _make_secret(self, name: str) -> None:
        if self.description.identify == "password":
            self._make_password(name)
        elif not self.authority.files(name)[0].exists():
            self.authority.issue_client(name)

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
        """Return the identities that may connect, with their passwords."""
        by_password = self.description.identify == "password"
        return Site(
            self.description.cohort,
            tuple(
                Identity(
                    role,
                    name,
                    self.password(name) if by_password else "",
                    self._cohort_of(role, name),
                )
                for role in ROLES
                for name in self.description.named(role)
            ),
            self.description.discovery_prefix,
            tuple(one.name for one in self.description.cohorts),
        )

    def _cohort_of(self, role: Role, name: str) -> str | None:
        """The cohort of an identity of one cohort only; None for the others."""
        if role in {"device", "subscriber"}:
            return self.description.cohort_of(name) or self.description.cohort
        return None

    def server_tls(self) -> ServerTls | None:
        """Return the broker's TLS files at their present place; None without TLS."""
        match self.description.tls:
            case "none":
                return None
            case CertificateFiles(certificate=certificate, key=key, ca=ca):
                return ServerTls(certificate, key, ca)
        authority = self.authority
        by_certificate = self.description.identify == "certificate"
        return ServerTls(
            *authority.server,
            authority.certificate,
            identities=authority.identities if by_certificate else None,
            revoked=authority.revoked if by_certificate else None,
        )

    @property
    def local_url(self) -> str:
        """The broker's address on the machine that runs it."""
        listen = self.description.listen
        host = LOCAL if listen in {"0.0.0.0", "::"} else listen  # noqa: S104  # compared only
        scheme = "mqtt" if self.description.tls == "none" else "mqtts"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.description.port}"

    def endpoint(self, name: str) -> Endpoint:
        """Return the endpoint with which an identity connects on the machine that runs the broker."""
        if self.description.role(name) is None:
            raise Problem(f"there is no identity {name!r} in {self.path / 'site.toml'}")
        tls = self.server_tls()
        if self.description.identify == "certificate" and tls is not None:
            certificate, key = self.authority.files(name)
            return Endpoint.parse(self.local_url, tls=Tls(tls.ca, certificate, key))
        password, trusted = self.password(name), None if tls is None else Tls(tls.ca)
        return Endpoint.parse(self.local_url, username=name, password=password, tls=trusted)

    def add(self, role: Role, name: str) -> None:
        """Add an identity and create its secret; raise Problem when the name is invalid or taken."""
        try:
            level(name)
        except ValueError as error:
            raise Problem(str(error)) from None
        known = self.description.role(name)
        if known is not None:
            raise Problem(f"{name} already exists, with the role {known}")
        described = self.description.with_names(role, (*self.description.own(role), name))
        # Before the description names it: a broker that runs follows the description, and makes what is missing.
        self._make_secret(name)
        self.change(described)
        self.complete()

    def revoke(self, name: str) -> None:
        """Remove an identity from the description, delete its password and revoke its certificate."""
        role = self.description.role(name)
        if role is None:
            raise Problem(f"there is no identity {name!r} in {self.path / 'site.toml'}")
        self.change(self.description.without_name(name))
        self.password_file(name).unlink(missing_ok=True)
        if self.description.tls == "own-authority" and self.authority.files(name)[0].exists():
            self.authority.revoke(name)

    def renew(self, name: str) -> None:
        """Sign a new certificate for an identity, to be handed out to it, and revoke the old one."""
        if self.description.role(name) is None:
            raise Problem(f"there is no identity {name!r} in {self.path / 'site.toml'}")
        if self.description.identify != "certificate":
            raise Problem(
                f"{name} has a password, which does not expire: revoke and add-device create a new one"
            )
        if self.authority.files(name)[0].exists():
            self.authority.revoke(name)
        self.authority.issue_client(name)

    def expires(self, name: str | None = None) -> datetime | None:
        """Return when an identity's certificate expires, or, without a name, the broker's.

        None if it authenticates with a password, or the certificate is not from the site's authority.
        """
        by_certificate = name is None or self.description.identify == "certificate"
        if self.description.tls != "own-authority" or not by_certificate:
            return None
        return self.authority.expires(name)

    def change(self, description: Description) -> None:
        """Replace the description, on disk and in memory."""
        descriptions.write(self.path / "site.toml", description)
        self.description = description

    def hand_out(self, name: str, folder: Path) -> str:
        """Copy an identity's credentials into a folder; return the matching `[broker]` section of a settings file."""
        files = self.credentials(name)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file, text in files.items():
            if file in PUBLIC:
                (folder / file).write_text(text)
            else:
                write_private(folder / file, text)
        return broker_section(self.description.urls, name, {file: str(folder / file) for file in files})

    def credentials(self, name: str) -> dict[str, str]:
        """Return the files with which an identity connects, by name: password, certificates, keys."""
        if self.description.role(name) is None:
            raise Problem(f"there is no identity {name!r} in {self.path / 'site.toml'}")
        files = {}
        if self.description.identify == "password":
            files["password"] = self.password(name) + "\n"
        tls = self.server_tls()
        if tls is not None:
            files["ca.pem"] = tls.ca.read_text()
        if self.description.identify == "certificate":
            certificate, key = self.authority.files(name)
            files["certificate.pem"] = certificate.read_text()
            files["certificate.key"] = key.read_text()
        return files


def broker_section(urls: Sequence[str], name: str, files: Mapping[str, str]) -> str:
    """Return the `[broker]` section of a settings file, given the paths of an identity's credentials."""
    lines = ["[broker]", f"urls = {descriptions.toml_value(list(urls))}"]
    if "password" in files:
        lines += [
            f"username = {descriptions.toml_value(name)}",
            f"password_file = {descriptions.toml_value(files['password'])}",
        ]
    names = {"ca": "ca.pem", "certificate": "certificate.pem", "key": "certificate.key"}
    found = {key: files[file] for key, file in names.items() if file in files}
    if found:
        lines += [
            "[broker.tls]",
            *(f"{key} = {descriptions.toml_value(file)}" for key, file in found.items()),
        ]
    return "\n".join(lines) + "\n"
