"""The calibrator's settings: one TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from broker.endpoint import Endpoint
from broker.messages import Level
from broker.problem import Problem
from broker.signature import PublicKey


class Section(BaseModel):
    """What all sections share: no unknown settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class BrokerSection(Section):
    """Where the broker is and as whom to connect."""

    urls: Annotated[tuple[str, ...], Field(min_length=1)]
    username: str | None = None
    password_file: Path | None = None


class KeysSection(Section):
    """Whose policies are followed, and the key that signs noise settings."""

    ops_keys: Annotated[tuple[str, ...], Field(min_length=1)]
    signing_key_file: Path


class Config(Section):
    """The whole file."""

    cohort: Level
    database: str
    broker: BrokerSection
    keys: KeysSection
    grace_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """How long after its end a window waits for late batches before it closes."""
    seen_every_s: Annotated[float, Field(gt=0, le=3_600)] = 1.0
    """At most one `seen` per device in this time."""

    @property
    def endpoints(self) -> list[Endpoint]:
        password = None
        if self.broker.password_file is not None:
            password = _read(self.broker.password_file, "broker.password_file").strip()
        return [
            Endpoint.parse(url, username=self.broker.username, password=password) for url in self.broker.urls
        ]

    @property
    def ops_keys(self) -> list[PublicKey]:
        try:
            return [PublicKey.parse(text) for text in self.keys.ops_keys]
        except ValueError as error:
            raise Problem(f"keys.ops_keys: {error}") from None


def load(path: Path) -> Config:
    """Read a settings file; Problem names the setting that is wrong and what it takes."""
    try:
        return Config.model_validate(tomllib.loads(_read(path, "--config")))
    except tomllib.TOMLDecodeError as error:
        raise Problem(f"{path}: not TOML: {error}") from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Problem(f"{path}: {where}: {first['msg']}") from None


def _read(path: Path, setting: str) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise Problem(f"{setting}: {path}: {error.strerror}") from None
