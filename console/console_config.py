"""The console's settings: one TOML file, with overrides from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from hushmq.broker.contract.message_base import Level
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PublicKey
from hushmq.broker.mqtt.endpoint import Endpoint, is_loopback
from hushmq.broker.service.settings_file import (
    BrokerSection,
    LocalPath,
    LogSection,
    PublicKeys,
    Section,
    read_settings,
)
from hushmq.calibrator.calibrator_config import DatabaseUrl, mark_beside

PREFIX = "HUSHMQ_CONSOLE__"


class ConsoleKeysSection(Section):
    """Public keys: whose policies are genuine, and whose disclosure. The console never has a private one."""

    ops_keys: PublicKeys = Field(
        min_length=1,
        description="Public keys of ops, base64: a policy that is uploaded must be signed with one of them.",
    )
    calibrator_keys: PublicKeys = Field(
        default=(), description="Public keys of the calibrator, base64, which seal the disclosure."
    )

    @property
    def ops(self) -> list[PublicKey]:
        return [PublicKey.parse(text) for text in self.ops_keys]

    @property
    def calibrators(self) -> list[PublicKey]:
        return [PublicKey.parse(text) for text in self.calibrator_keys]


class HttpsSection(Section):
    """The certificate with which pages are served."""

    certificate: LocalPath = Field(description="The console's certificate, PEM.")
    key: LocalPath = Field(description="The private key of that certificate, PEM.")


class UploadSection(Section):
    """An identity of ops at the broker, with which uploaded policies are published; without it there is no upload."""

    username: str = Field(description="An identity with the role ops.")
    password_file: LocalPath | None = Field(
        default=None, description="A file with its password, readable only by its owner."
    )


class ConsoleConfig(Section):
    """The whole file."""

    cohort: Level = Field(description="The cohort that is shown.")
    database: DatabaseUrl = Field(
        description="The calibrator's database, which is only read: a SQLAlchemy URL."
    )
    mark_file: LocalPath | None = Field(
        default=None, description="The calibrator's `mark_file`, if it names one."
    )
    users_file: LocalPath = Field(
        description="Users, roles and hashed passwords; mode 600. `hushmq console user`."
    )
    log_file: LocalPath = Field(
        description="The log of changes and views, a chain of digests; the console appends."
    )
    disclosure_file: LocalPath | None = Field(
        default=None, description="What `hushmq ledger disclose` wrote, for download; absent: not offered."
    )
    listen: str = Field(default="127.0.0.1", description="The address on which pages are served.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=8443, description="The port; 0: any free one."
    )
    hosts: tuple[str, ...] = Field(
        default=(),
        description="Names by which browsers reach it, beside `listen`; a request for any other is refused.",
    )
    grace_s: Annotated[float, Field(ge=0, le=86_400)] = Field(
        default=60.0,
        description="The calibrator's `grace_s`: a window not closed a minute after it is overdue.",
    )
    health_url: str | None = Field(
        default=None, description="The calibrator's `/health`, such as `http://127.0.0.1:9102/health`."
    )
    broker: BrokerSection
    keys: ConsoleKeysSection
    tls: HttpsSection | None = Field(
        default=None, description="Required unless `listen` is a loopback address."
    )
    upload: UploadSection | None = Field(
        default=None, description="Absent: nothing can be published from the console."
    )
    log: LogSection = LogSection()

    @field_validator("health_url")
    @classmethod
    def _http(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError("it begins with http:// or https://")
        return url

    @model_validator(mode="after")
    def _plain_on_loopback_only(self) -> Self:
        if self.tls is None and not is_loopback(self.listen):
            raise ValueError(
                f"tls: without it passwords cross the network in clear text: give tls.certificate and tls.key, "
                f'or listen = "127.0.0.1" (it is {self.listen!r})'
            )
        return self

    @property
    def allowed_hosts(self) -> list[str]:
        """The names of this console in a request's Host: whatever else a browser was led to believe is refused."""
        local = ["localhost", "127.0.0.1"] if is_loopback(self.listen) else []
        return [*dict.fromkeys((*self.hosts, self.listen, *local))]

    @property
    def mark_path(self) -> Path | None:
        """The ledger's high-water mark, if it can be read here."""
        path = self.mark_file or mark_beside(self.database)
        return path if path is not None and path.exists() else None

    def upload_endpoints(self) -> list[Endpoint]:
        """The broker, with the identity that may publish a policy; raise Problem where there is none."""
        if self.upload is None:
            raise Problem("upload: the console publishes nothing: give it an identity of ops in [upload]")
        return self.broker.model_copy(
            update={"username": self.upload.username, "password_file": self.upload.password_file}
        ).endpoints()


def load_console(path: Path, environment: Mapping[str, str] = os.environ) -> ConsoleConfig:
    """Read a settings file; passwords and certificates too, so that a bad one is found now."""
    config = read_settings(path, ConsoleConfig, prefix=PREFIX, environment=environment)
    for endpoint in config.broker.endpoints():
        if endpoint.tls is not None:
            endpoint.tls.context()
    if config.upload is not None:
        config.upload_endpoints()
    return config
