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

from agent.read import Reader
from broker.endpoint import Endpoint, Tls
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
    start_tick: Annotated[int, Field(ge=0)] | None = Field(
        None, description="The chain's first tick, at most 10⁸ ticks ago; absent: the first one asked for."
    )
    low: float = Field(0.0, description="The number emitted in state 0.")
    high: float = Field(1.0, description="The number emitted in state 1.")


class Resampled(Section):
    """What sources share whose values come when they please."""

    max_age_ms: Milliseconds = Field(
        60_000,
        description="The value of a tick is the last one that came, unless it is older than this: then a gap.",
    )


class Text(Resampled):
    """What sources share whose values come as text."""

    form: Literal["number", "label", "json"] = Field("number", description="What a line or payload is.")
    json_path: JsonPath | None = Field(
        None, description="Where the value stands in JSON: names joined by dots, a number picks from a list."
    )
    where: dict[JsonPath, bool | int | float | str] = Field(
        {}, description="JSON counts only if each of these paths has the value given, e.g. `{id = 42}`."
    )

    @model_validator(mode="after")
    def _json_only(self) -> Self:
        if self.form != "json" and (self.json_path is not None or self.where):
            raise ValueError('json_path and where need form = "json"')
        return self

    def reader(self) -> Reader:
        return Reader(self.form, self.json_path, self.where)


class Offered(Resampled):
    """A program that embeds the agent calls `Agent.offer`."""

    kind: Literal["offer"]


class Stdin(Text):
    """One value a line on standard input."""

    kind: Literal["stdin"]


class File(Text):
    """One value a line in a file that grows, or a recording replayed at one line a tick."""

    kind: Literal["file"]
    file: Path = Field(description="The file.")
    replay: bool = Field(
        False, description="Take one line for each tick from the beginning, instead of following."
    )
    repeat: bool = Field(False, description="With `replay`: begin again after the last line.")


class Serial(Text):
    """One value a line on a serial port; needs the extra `serial`."""

    kind: Literal["serial"]
    port: str = Field(description="The port, e.g. `/dev/ttyUSB0`.")
    baud: Annotated[int, Field(ge=50, le=4_000_000)] = Field(9600, description="Its speed.")


class Mqtt(Text):
    """A topic on a local broker, as zigbee2mqtt, Tasmota, rtl_433 or ESPHome write it."""

    kind: Literal["mqtt"]
    url: str = Field(description="`mqtt://host[:port]` of the local broker.")
    topic: Annotated[str, Field(min_length=1)] = Field(description="The topic; `+` and `#` are allowed.")
    username: str | None = Field(None, description="Identity at that broker.")
    password_file: Path | None = Field(
        None, description="A file with the password, readable by its owner only."
    )
    retained: bool = Field(
        False, description="Whether a retained message, which may be old, counts as a value."
    )

    def endpoint(self) -> Endpoint:
        password = None if self.password_file is None else _secret(self.password_file)
        return Endpoint.parse(self.url, username=self.username, password=password)


AnySource = Simulate | Offered | Stdin | File | Serial | Mqtt


class StreamSection(Section):
    """One stream of this device."""

    source: Annotated[AnySource, Field(discriminator="kind")] = Field(description="Where values come from.")


class MetricsSection(Section):
    """Metrics for Prometheus, on request."""

    port: Annotated[int, Field(ge=0, le=65_535)] | None = Field(
        None, description="Serve `/metrics` on this port of `host`; absent: not at all. 0: any free port."
    )
    host: str = Field("127.0.0.1", description="The address it is served on.")


class Config(Section):
    """The whole file."""

    device: Level = Field(description="The device's name, one topic level.")
    cohort: Level = Field(description="The cohort it belongs to.")
    folder: Path = Field(description="Where outbox, last good settings and socket live; made if missing.")
    broker: BrokerSection
    trust: TrustSection
    publish: PublishSection = PublishSection()  # type: ignore[call-arg]  # Field defaults given by position
    outbox: OutboxSection = OutboxSection()  # type: ignore[call-arg]  # as above
    metrics: MetricsSection = MetricsSection()  # type: ignore[call-arg]  # as above
    log: LogSection = LogSection()  # type: ignore[call-arg]  # as above
    streams: Annotated[dict[Level, StreamSection], Field(min_length=1, max_length=64)]

    @field_validator("streams")
    @classmethod
    def _one_reader_of_stdin(cls, streams: dict[str, StreamSection]) -> dict[str, StreamSection]:
        if sum(stream.source.kind == "stdin" for stream in streams.values()) > 1:
            raise ValueError('standard input has one reader: give kind = "stdin" to one stream only')
        return streams


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Config:
    """The settings of a file with the environment's overrides, or Problem naming the setting that is wrong.

    Passwords, keys and certificates are read too, so that a bad one is found now and not at the first connection.
    """
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
        config = Config.model_validate(tree)
    except ValidationError as error:
        raise Problem(f"{path}: {_first(error)}") from None
    for endpoint in config.broker.endpoints():
        if endpoint.tls is not None:
            endpoint.tls.context()
    for stream in config.streams.values():
        if isinstance(stream.source, Mqtt):
            stream.source.endpoint()
    return config


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
