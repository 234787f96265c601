"""What the settings files of our daemons share: TOML, overrides from the environment, one line when it is wrong.

`PREFIX` + `BROKER__USERNAME=pi` in the environment is `broker.username = "pi"`; its text is read as a TOML value
where it is one and as a string otherwise.
"""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hushmq.broker.contract.message_base import way
from hushmq.broker.contract.problem import Problem
from hushmq.broker.mqtt.endpoint import Endpoint, Tls


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
    username: str | None = Field(
        default=None, description="Identity at the broker; of a device, with ACLs, its name."
    )
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
        try:
            return [
                Endpoint.parse(url, username=self.username, password=password, tls=tls) for url in self.urls
            ]
        except Problem as problem:
            raise Problem(f"broker.urls: {problem}") from None


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
    overrides: dict[tuple[str, ...], str] = {}
    for name, text in sorted(environment.items()):
        if name.startswith(prefix):
            keys = tuple(name.removeprefix(prefix).lower().split("__"))
            _override(tree, name, keys, text)
            overrides[keys] = name
    try:
        # As JSON, since pydantic is strict there without refusing a text for a path: true is no number, "5" neither.
        return model.model_validate_json(json.dumps(tree, default=str), strict=True)
    except ValidationError as error:
        keys = _keys(error.errors()[0]["loc"], tree)
        where = next((name for given, name in overrides.items() if keys[: len(given)] == given), str(path))
        raise Problem(f"{where}: {first_error(error, tree, set(_names(model)))}") from None


def first_error(
    error: ValidationError, tree: Mapping[str, Any] | None = None, names: set[str] | None = None
) -> str:
    """The first wrong setting by its dotted name, what is wrong with it, and the value given.

    `tree` is what was read and `names` are the settings there are. The value of an unknown setting is not shown:
    it may be a password in the wrong place.
    """
    first = error.errors(include_url=False)[0]
    where = ".".join(_keys(tuple(way(first["loc"])), tree or {})) or "the file"
    given, what = first["input"], first["msg"].removeprefix("Value error, ")
    shown = "" if first["type"] == "missing" or isinstance(given, dict) else f" (it is {given!r:.60})"
    match first["type"]:
        case "extra_forbidden":
            from difflib import get_close_matches  # noqa: PLC0415  # a device that is well needs it never

            meant = get_close_matches(str(first["loc"][-1]), sorted(names or ()), 1)
            return f"{where}: there is no such setting{f'; did you mean {meant[0]}?' if meant else ''}"
        case "union_tag_invalid":
            given, allowed = first["ctx"]["tag"], first["ctx"]["expected_tags"]
            return f"{where}.kind: it takes one of {allowed} (it is {given!r:.60})"
        case "union_tag_not_found":
            return f"{where}.kind: Field required"
    return f"{where}: {what}{shown}"


def _keys(loc: tuple[int | str, ...], tree: Any) -> tuple[str, ...]:
    """Where an error is, as the file's reader sees it: pydantic puts a section's kind first, which is no key."""
    found: list[str] = []
    for part in loc:
        if isinstance(tree, dict) and part == tree.get("kind"):
            tree = {name: value for name, value in tree.items() if name != "kind"}
            continue
        found.append(str(part))
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tuple(found)


def _names(annotation: Any) -> Iterator[str]:
    """The names of all settings in a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield name
            yield from _names(field.annotation)
    for inner in get_args(annotation):
        yield from _names(inner)


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
