"""Reads a daemon's settings file: TOML, overridden by environment variables; an error is one line naming the setting.

`PREFIX` + `BROKER__USERNAME=pi` in the environment sets `broker.username = "pi"`; its text is read as a TOML value
if it is one, and as a string otherwise. A relative path is relative to the folder of the file.
"""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails

from hushmq.broker.contract.message_base import field_path
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PublicKey
from hushmq.broker.mqtt.endpoint import Endpoint, Tls, refuse_clear_text


class Section(BaseModel):
    """The base of all sections: frozen, without unknown settings, NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


C = TypeVar("C", bound=Section)


def beside_file(path: Path, info: ValidationInfo) -> Path:
    """Return a path of a settings file; a relative one is relative to that file's folder."""
    folder: Path | None = (info.context or {}).get("folder")
    return path if folder is None else folder / path


LocalPath = Annotated[Path, AfterValidator(beside_file)]
"""A path in a settings file."""


def _public_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    for key in keys:
        PublicKey.parse(key)
    return keys


PublicKeys = Annotated[tuple[str, ...], AfterValidator(_public_keys)]
"""Public keys in base64."""


class LogSection(Section):
    """What is written to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The lowest level that is logged."
    )
    form: Literal["auto", "console", "json"] = Field(
        default="auto", description="`auto`: console on a terminal, else JSON."
    )


class TlsSection(Section):
    """Certificates for `mqtts` addresses, each a PEM file."""

    ca: LocalPath | None = Field(
        default=None,
        description="Certificate authorities trusted to sign the broker's certificate; absent: the system's.",
    )
    certificate: LocalPath | None = Field(
        default=None, description="The client's certificate, for mutual TLS."
    )
    key: LocalPath | None = Field(default=None, description="The private key of that certificate.")

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key go together: give both or neither")
        return self


class BrokerSection(Section):
    """The broker's addresses, and the identity with which to connect."""

    urls: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="`mqtt://host[:port]`, `mqtts://host[:port]` with TLS, over WebSocket `ws://` or `wss://`; "
        "tried in turn when one fails."
    )
    username: str | None = Field(
        default=None,
        description="Identity at the broker; for a device, its name, which the broker's ACL uses.",
    )
    password_file: LocalPath | None = Field(
        default=None, description="A file with the password, readable only by its owner."
    )
    password_in_clear_text: bool = Field(
        default=False,
        description="Accept that everybody on the network can read the password: only then is it sent without TLS to "
        "another host than this one.",
    )
    tls: TlsSection | None = Field(
        default=None, description="Required for `mqtts` with a private authority or client certificates."
    )

    def endpoints(self, section: str = "broker") -> list[Endpoint]:
        """Return an endpoint for every address; raise Problem on an invalid address or password file.

        `section` is its name in the file, for errors.
        """
        tls = None if self.tls is None else Tls(self.tls.ca, self.tls.certificate, self.tls.key)
        password = None
        if self.password_file is not None:
            password = read_secret(self.password_file, f"{section}.password_file")
        try:
            found = [
                Endpoint.parse(url, username=self.username, password=password, tls=tls) for url in self.urls
            ]
        except Problem as problem:
            raise Problem(f"{section}.urls: {problem}") from None
        if not self.password_in_clear_text:
            risk = f"{section}.password_in_clear_text = true"
            refuse_clear_text(found, setting=f"{section}.urls", risk=risk)
        return found


def read_settings(
    path: Path, model: type[C], *, prefix: str, environment: Mapping[str, str] = os.environ
) -> C:
    """Return a file's settings with the environment's overrides; raise Problem that names the invalid setting."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Problem(f"--config: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Problem(f"{path}: not UTF-8 text: settings are TOML") from None
    except (ValueError, RecursionError) as error:
        raise Problem(f"{path}: not TOML: {error}") from None
    overrides: dict[tuple[str, ...], str] = {}
    for name, text in sorted(environment.items()):
        if name.startswith(prefix):
            keys = tuple(name.removeprefix(prefix).lower().split("__"))
            _override(tree, name, keys, text)
            overrides[keys] = name
    try:
        # Validated as JSON: there pydantic's strict mode refuses true or "5" for a number but accepts text for a path.
        return model.model_validate_json(
            json.dumps(tree, default=str), strict=True, context={"folder": path.absolute().parent}
        )
    except ValidationError as error:
        keys = _keys(error.errors()[0]["loc"], tree)
        where = next((name for given, name in overrides.items() if keys[: len(given)] == given), str(path))
        raise Problem(f"{where}: {first_error(error, tree, set(setting_names(model)))}") from None


def first_error(
    error: ValidationError, tree: Mapping[str, Any] | None = None, names: set[str] | None = None
) -> str:
    """Return one line about the first invalid setting: its dotted name, the rule it breaks, and its value.

    `tree` is the parsed file and `names` are all valid names. The value of an unknown setting is not shown, because it
    may be a password in the wrong place.
    """
    first = _misspelt(error.errors(include_url=False))
    where = ".".join(_keys(tuple(field_path(first["loc"])), tree or {})) or "the file"
    given, what = first["input"], first["msg"].removeprefix("Value error, ")
    shown = "" if first["type"] == "missing" or isinstance(given, dict) else f" (it is {given!r:.60})"
    match first["type"]:
        case "extra_forbidden":
            from difflib import get_close_matches  # noqa: PLC0415  # only needed for this error

            meant = get_close_matches(str(first["loc"][-1]), sorted(names or ()), 1)
            return f"{where}: there is no such setting{f'; did you mean {meant[0]}?' if meant else ''}"
        case "union_tag_invalid":
            given, allowed = first["ctx"]["tag"], first["ctx"]["expected_tags"]
            return f"{where}.kind: it takes one of {allowed} (it is {given!r:.60})"
        case "union_tag_not_found":
            return f"{where}.kind: Field required"
    return f"{where}: {what}{shown}"


def _misspelt(errors: Sequence[ErrorDetails]) -> ErrorDetails:
    """The first error; where a setting is missing and one with nearly its name is there, that one."""
    first = errors[0]
    if first["type"] != "missing":
        return first
    from difflib import get_close_matches  # noqa: PLC0415  # only needed for this error

    *section, name = first["loc"]
    beside = (one for one in errors if one["type"] == "extra_forbidden" and [*one["loc"][:-1]] == section)
    return next((one for one in beside if get_close_matches(str(one["loc"][-1]), [str(name)])), first)


def _keys(loc: tuple[int | str, ...], tree: Any) -> tuple[str, ...]:
    """Return an error's location as keys of the file: pydantic adds a section's `kind`, which is not a key."""
    found: list[str] = []
    for part in loc:
        if isinstance(tree, dict) and part == tree.get("kind"):
            tree = {name: value for name, value in tree.items() if name != "kind"}
            continue
        found.append(str(part))
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tuple(found)


def setting_names(annotation: Any) -> Iterator[str]:
    """Yield the names of all settings in a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield name
            yield from setting_names(field.annotation)
    for inner in get_args(annotation):
        yield from setting_names(inner)


def read_secret(path: Path, setting: str) -> str:
    """Return the content of a file; raise Problem unless only its owner can read it. `setting` names it in errors."""
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise Problem(f"{setting}: {path} is open to others (mode {mode:o}): chmod 600 it")
            secret = file.read().rstrip("\n")
            if not secret:
                raise Problem(f"{setting}: {path} is empty: write the secret into it")
            return secret
    except OSError as error:
        raise Problem(f"{setting}: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Problem(f"{setting}: {path}: not UTF-8 text") from None


def _override(tree: dict[str, Any], name: str, keys: tuple[str, ...], text: str) -> None:
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
