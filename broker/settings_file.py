"""What the settings files of our daemons share: TOML, overrides from the environment, one line when it is wrong.

`PREFIX` + `BROKER__USERNAME=pi` in the environment is `broker.username = "pi"`; its text is read as a TOML value
where it is one and as a string otherwise.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from broker.endpoint import Endpoint, Tls
from broker.problem import Problem


class Section(BaseModel):
    """What all sections share: frozen, no unknown settings, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


C = TypeVar("C", bound=Section)


class TlsSection(Section):
    """Certificates, each a PEM file; for `mqtts` addresses."""

    ca: Path | None = Field(
        default=None, description="Authorities that may vouch for the broker; the system's when absent."
    )
    certificate: Path | None = Field(default=None, description="One's own certificate.")
    key: Path | None = Field(default=None, description="The key of that certificate.")

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key go together: give both or neither")
        return self


class BrokerSection(Section):
    """Where the broker is, and as whom to connect."""

    urls: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="`mqtt://host[:port]` or `mqtts://host[:port]`; tried in turn when one fails."
    )
    username: str | None = Field(default=None, description="Identity at the broker.")
    password_file: Path | None = Field(
        default=None, description="A file with the password, readable by its owner only."
    )
    tls: TlsSection | None = Field(
        default=None, description="Needed for `mqtts` with certificates of one's own."
    )

    def endpoints(self) -> list[Endpoint]:
        """Every address with the credentials; Problem on a bad address or password file."""
        tls = None if self.tls is None else Tls(self.tls.ca, self.tls.certificate, self.tls.key)
        password = None
        if self.password_file is not None:
            password = read_secret(self.password_file, "broker.password_file")
        return [Endpoint.parse(url, username=self.username, password=password, tls=tls) for url in self.urls]


def read_settings(
    path: Path, model: type[C], *, prefix: str, environment: Mapping[str, str] = os.environ
) -> C:
    """The settings of a file with the environment's overrides, or Problem naming the setting that is wrong."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Problem(f"--config: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Problem(f"{path}: not UTF-8 text: settings are TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise Problem(f"{path}: not TOML: {error}") from None
    for name, text in sorted(environment.items()):
        if name.startswith(prefix):
            _override(tree, name, name.removeprefix(prefix).lower().split("__"), text)
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        raise Problem(f"{path}: {first_error(error)}") from None


def first_error(error: ValidationError) -> str:
    """The first wrong setting by its dotted name, what is wrong with it, and the value given."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the file"
    given = first["input"]
    shown = "" if first["type"] == "missing" or isinstance(given, dict) else f" (it is {given!r:.60})"
    return f"{where}: {first['msg'].removeprefix('Value error, ')}{shown}"


def read_secret(path: Path, setting: str) -> str:
    """The content of a file that only its owner can read."""
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise Problem(f"{setting}: {path} is open to others (mode {mode:o}): chmod 600 it")
            return file.read().rstrip("\n")
    except OSError as error:
        raise Problem(f"{setting}: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Problem(f"{setting}: {path}: not UTF-8 text") from None


def _override(tree: dict[str, Any], name: str, keys: list[str], text: str) -> None:
    """Set one setting from the environment."""
    *sections, last = keys
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise Problem(f"{name}: {section} is a setting, not a section")
    try:
        tree[last] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        tree[last] = text
