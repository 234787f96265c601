"""The one file a device trusts: where the broker is, whose keys count, the caps, and where samples come from.

TOML, read once at start and again on SIGHUP. An environment variable overrides one setting:
`HUSHMQ_AGENT__BROKER__USERNAME=pi` is `broker.username = "pi"`; its text is read as a TOML value where it is
one and as a string otherwise. Anything wrong is one Problem that names the setting.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from broker.connection import Endpoint, Tls
from broker.problem import Problem
from broker.signature import PublicKey
from broker.topics import LEVEL

PREFIX = "HUSHMQ_AGENT__"

Level = Annotated[str, Field(pattern=rf"^{LEVEL.pattern}$")]
Milliseconds = Annotated[int, Field(ge=1, le=86_400_000)]
Probability = Annotated[float, Field(gt=0, lt=1)]
JsonPath = Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)*$")]


class Section(BaseModel):
    """What all sections share: frozen, no unknown settings, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class TlsSection(Section):
    """Certificates, each a PEM file; for `mqtts` addresses."""

    ca: Path | None = Field(
        None, description="Authorities that may vouch for the broker; the system's when absent."
    )
    certificate: Path | None = Field(None, description="The device's own certificate.")
    key: Path | None = Field(None, description="The key of that certificate.")

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key go together: give both or neither")
        return self


class BrokerSection(Section):
    """Where the broker is, and who this device is there."""

    urls: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="`mqtt://host[:port]` or `mqtts://host[:port]`; tried in turn when one fails."
    )
    username: str | None = Field(
        None, description="Identity at the broker; with ACLs it is the device's name."
    )
    password_file: Path | None = Field(
        None, description="A file with the password, readable by its owner only."
    )
    tls: TlsSection | None = Field(None, description="Needed for `mqtts` with certificates of one's own.")

    def endpoints(self) -> list[Endpoint]:
        """Every address with the credentials; Problem on a bad address or password file."""
        tls = None if self.tls is None else Tls(self.tls.ca, self.tls.certificate, self.tls.key)
        password = None if self.password_file is None else _secret(self.password_file)
        return [Endpoint.parse(url, username=self.username, password=password, tls=tls) for url in self.urls]


class TrustSection(Section):
    """Whose settings this device applies, and how far it lets them go."""

    ops_keys: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="Public keys, base64, one of which must have signed a policy."
    )
    calibrator_keys: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="Public keys, base64, one of which must have signed a noise setting."
    )
    epsilon_max: Annotated[float, Field(gt=0, le=20)] = Field(
        description="The largest ε of any audience that a policy may ask for; larger is refused."
    )
    rho_min: Probability = Field(0.001, description="The smallest flip probability a noise setting may have.")

    @field_validator("ops_keys", "calibrator_keys")
    @classmethod
    def _keys(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        for key in keys:
            PublicKey.parse(key)
        return keys


class PublishSection(Section):
    """When batches leave the device."""

    beat_ms: Milliseconds = Field(
        10_000, description="A batch is made, stored and sent every so often, whatever the values are."
    )
    status_ms: Milliseconds = Field(60_000, description="`status` is repeated at least this often.")
    window: Annotated[int, Field(ge=1, le=50)] = Field(
        20, description="Batches on their way to the broker at any time."
    )
    resend_ms: Milliseconds = Field(
        60_000,
        description="A batch not `seen` for so long is sent again; doubled each time in vain, up to an hour.",
    )
    linger_ms: Annotated[int, Field(ge=0, le=4_000)] = Field(
        2_000, description="At a stop, how long to wait for the calibrator to have `seen` everything."
    )


class OutboxSection(Section):
    """How much waits on the device when nobody listens; beyond it the oldest goes first, and is counted."""

    max_bytes: Annotated[int, Field(ge=1_024, le=2**40)] = Field(
        64 * 2**20, description="Bytes of waiting batches."
    )
    max_age_s: Annotated[int, Field(ge=1, le=10 * 366 * 86_400)] = Field(
        30 * 86_400, description="Age of the oldest waiting batch."
    )


class LogSection(Section):
    """What is written to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least level written."
    )
    form: Literal["auto", "console", "json"] = Field(
        "auto", description="`auto`: console on a terminal, else JSON."
    )


class Simulate(Section):
    """A seeded two-state chain, for demonstrations and tests: its state at a tick is a pure function of these."""

    kind: Literal["simulate"]
    q: Probability = Field(description="P(0→1).")
    r: Probability = Field(description="P(1→0).")
    seed: int = Field(description="Seed of the chain.")
    start_tick: Annotated[int, Field(ge=0)] = Field(0, description="The chain's first tick.")
    low: float = Field(0.0, description="The number emitted in state 0.")
    high: float = Field(1.0, description="The number emitted in state 1.")


class Offered(Section):
    """A program that embeds the agent calls `Agent.offer`."""

    kind: Literal["offer"]
    max_age_ms: Milliseconds = Field(60_000, description="A value older than this is a gap.")


class StreamSection(Section):
    """One stream of this device."""

    source: Annotated[Simulate | Offered, Field(discriminator="kind")] = Field(
        description="Where values come from."
    )


class Config(Section):
    """The whole file."""

    device: Level = Field(description="The device's name, one topic level.")
    cohort: Level = Field(description="The cohort it belongs to.")
    folder: Path = Field(description="Where outbox, last good settings and socket live; made if missing.")
    broker: BrokerSection
    trust: TrustSection
    publish: PublishSection = PublishSection()  # type: ignore[call-arg]  # Field defaults given by position
    outbox: OutboxSection = OutboxSection()  # type: ignore[call-arg]  # as above
    log: LogSection = LogSection()  # type: ignore[call-arg]  # as above
    streams: Annotated[dict[Level, StreamSection], Field(min_length=1, max_length=64)]


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Config:
    """The settings of a file with the environment's overrides, or Problem naming the setting that is wrong."""
    try:
        tree = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Problem(f"{path}: not UTF-8 text: a configuration is TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise Problem(f"{path}: {error}") from None
    for name, text in sorted(environment.items()):
        if name.startswith(PREFIX):
            _override(tree, name, text)
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise Problem(f"{path}: {_first(error)}") from None


def _override(tree: dict[str, Any], name: str, text: str) -> None:
    """Set one setting from the environment."""
    *sections, last = name.removeprefix(PREFIX).lower().split("__")
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise Problem(f"{name}: {section} is a setting, not a section")
    try:
        tree[last] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        tree[last] = text


def _first(error: ValidationError) -> str:
    """The first wrong setting by its dotted name, what is wrong with it, and the value given."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the file"
    given = first["input"]
    shown = "" if first["type"] == "missing" or isinstance(given, dict) else f" (it is {given!r:.60})"
    return f"{where}: {first['msg'].removeprefix('Value error, ')}{shown}"


def _secret(path: Path) -> str:
    """The content of a file that only its owner can read."""
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise Problem(f"broker.password_file: {path} is open to others (mode {mode:o}): chmod 600 it")
            return file.read().rstrip("\n")
    except OSError as error:
        raise Problem(f"broker.password_file: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Problem(f"broker.password_file: {path}: not UTF-8 text") from None
