"""The one file a device trusts: where the broker is, whose keys count, the caps, and where samples come from.

TOML, read once at start and again on SIGHUP. An environment variable overrides one setting:
`HUSHMQ_AGENT__BROKER__USERNAME=pi` is `broker.username = "pi"`; its text is read as a TOML value where it is
one and as a string otherwise. Anything wrong is one Problem that names the setting.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from hushmq.agent.sources.parse_value import Reader
from hushmq.agent.sources.simulated_source import stationary
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PublicKey
from hushmq.broker.contract.topics import LEVEL
from hushmq.broker.mqtt.endpoint import Endpoint, Tls
from hushmq.broker.service.settings_file import BrokerSection, Section, TlsSection, read_secret, read_settings

PREFIX = "HUSHMQ_AGENT__"

Level = Annotated[str, Field(pattern=rf"^{LEVEL.pattern}$")]
Milliseconds = Annotated[int, Field(ge=1, le=86_400_000)]
Probability = Annotated[float, Field(gt=0, lt=1)]
JsonPath = Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)*$")]
TOPIC_FILTER = re.compile(r"#|(\+|[^+#/\x00]*)(/(\+|[^+#/\x00]*))*(/#)?")


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
    rho_min: Probability = Field(
        default=0.001, description="The smallest probability of any one output that a noise setting may have."
    )

    @field_validator("ops_keys", "calibrator_keys")
    @classmethod
    def _keys(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        for key in keys:
            PublicKey.parse(key)
        return keys


class PublishSection(Section):
    """When batches leave the device."""

    beat_ms: Annotated[int, Field(ge=1, le=3_600_000)] = Field(
        default=10_000,
        description="A batch is made, stored and sent every so often, whatever the values are.",
    )
    status_ms: Milliseconds = Field(default=60_000, description="`status` is repeated at least this often.")
    window: Annotated[int, Field(ge=1, le=50)] = Field(
        default=20, description="Batches on their way to the broker at any time."
    )
    resend_ms: Milliseconds = Field(
        default=60_000,
        description="A batch not `seen` for so long is sent again; doubled each time in vain, up to an hour.",
    )
    linger_ms: Annotated[int, Field(ge=0, le=2_500)] = Field(
        default=2_000, description="At a stop, how long to wait for the calibrator to have `seen` everything."
    )


class OutboxSection(Section):
    """How much waits on the device when nobody listens; beyond it the oldest goes first, and is counted."""

    max_bytes: Annotated[int, Field(ge=1_024, le=2**40)] = Field(
        default=64 * 2**20, description="Bytes of waiting batches, and 64 for each."
    )
    max_age_s: Annotated[int, Field(ge=1, le=10 * 366 * 86_400)] = Field(
        default=30 * 86_400, description="Age of the oldest waiting batch."
    )


class LogSection(Section):
    """What is written to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least level written."
    )
    form: Literal["auto", "console", "json"] = Field(
        default="auto", description="`auto`: console on a terminal, else JSON."
    )


class Simulate(Section):
    """A seeded two-state chain, for demonstrations and tests: its state at a tick is a pure function of these."""

    kind: Literal["simulate"]
    q: Probability = Field(description="P(0→1).")
    r: Probability = Field(description="P(1→0).")
    seed: int = Field(description="Seed of the chain.")
    start_tick: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="The chain's first tick, at most 10⁸ ticks ago; absent: the first one asked for.",
    )
    low: float = Field(default=0.0, description="The number emitted in state 0.")
    high: float = Field(default=1.0, description="The number emitted in state 1.")

    @property
    def transition(self) -> tuple[tuple[float, ...], ...]:
        return ((1 - self.q, self.q), (self.r, 1 - self.r))

    @property
    def values(self) -> tuple[float, float]:
        return (self.low, self.high)


class SimulateStates(Section):
    """A seeded chain of any number of states, for demonstrations and tests."""

    kind: Literal["simulate-states"]
    transition: Annotated[
        tuple[tuple[Annotated[float, Field(ge=0, le=1)], ...], ...], Field(min_length=2, max_length=256)
    ] = Field(description="One row for each state: the probabilities of the state at the next tick.")
    values: tuple[float | str, ...] = Field(
        description="What is emitted in each state: a number or a label, as the discretiser takes it."
    )
    seed: int = Field(description="Seed of the chain.")
    start_tick: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="The chain's first tick, at most 10⁸ ticks ago; absent: the first one asked for.",
    )

    @model_validator(mode="after")
    def _a_chain(self) -> Self:
        k = len(self.transition)
        for number, row in enumerate(self.transition):
            if len(row) != k or not abs(sum(row) - 1) <= 1e-9:
                raise ValueError(f"transition row {number} must have {k} probabilities that sum to 1")
        if len(self.values) != k:
            raise ValueError(f"values must be {k}, one for each row of transition")
        stationary(self.transition)  # says which state leads nowhere
        return self


class Resampled(Section):
    """What sources share whose values come when they please."""

    max_age_ms: Milliseconds = Field(
        default=60_000,
        description="The value of a tick is the last one that came, unless it is older than this: then a gap.",
    )


class Text(Resampled):
    """What sources share whose values come as text."""

    form: Literal["number", "label", "json"] = Field(
        default="number", description="What a line or payload is."
    )
    json_path: JsonPath | None = Field(
        default=None,
        description="Where the value stands in JSON: names joined by dots, a number picks from a list.",
    )
    where: dict[JsonPath, bool | int | float | str] = Field(
        default={},
        description="JSON counts only if each of these paths has the value given, e.g. `{id = 42}`.",
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
        default=False, description="Take one line for each tick from the beginning, instead of following."
    )
    repeat: bool = Field(default=False, description="With `replay`: begin again after the last line.")

    @model_validator(mode="after")
    def _replay_only(self) -> Self:
        if self.repeat and not self.replay:
            raise ValueError("repeat needs replay = true")
        return self


class Serial(Text):
    """One value a line on a serial port; needs the extra `serial`."""

    kind: Literal["serial"]
    port: str = Field(description="The port, e.g. `/dev/ttyUSB0`.")
    baud: Annotated[int, Field(ge=50, le=4_000_000)] = Field(default=9600, description="Its speed.")


class Mqtt(Text):
    """A topic on a local broker, as zigbee2mqtt, Tasmota, rtl_433 or ESPHome write it."""

    kind: Literal["mqtt"]
    url: str = Field(description="`mqtt://host[:port]` of the local broker.")
    topic: Annotated[str, Field(min_length=1)] = Field(
        description="The topic; `+` stands for any level and `/#` at the end for all below."
    )
    username: str | None = Field(default=None, description="Identity at that broker.")
    password_file: Path | None = Field(
        default=None, description="A file with the password, readable by its owner only."
    )
    retained: bool = Field(
        default=False, description="Whether a retained message, which may be old, counts as a value."
    )
    tls: TlsSection | None = Field(default=None, description="For `mqtts` with certificates of one's own.")

    @field_validator("topic")
    @classmethod
    def _filter(cls, topic: str) -> str:
        if not TOPIC_FILTER.fullmatch(topic):
            raise ValueError("+ and # stand for whole levels, # for the last only, as in a/+/c/#")
        return topic

    def endpoint(self, where: str = "source") -> Endpoint:
        """The local broker; Problem on a bad address or password file, named as a setting of `where`."""
        password = None
        if self.password_file is not None:
            password = read_secret(self.password_file, f"{where}.password_file")
        tls = None if self.tls is None else Tls(self.tls.ca, self.tls.certificate, self.tls.key)
        try:
            return Endpoint.parse(self.url, username=self.username, password=password, tls=tls)
        except Problem as problem:
            raise Problem(f"{where}.url: {problem}") from None


AnySource = Simulate | SimulateStates | Offered | Stdin | File | Serial | Mqtt


class StreamSection(Section):
    """One stream of this device."""

    source: Annotated[AnySource, Field(discriminator="kind")] = Field(description="Where values come from.")


class MetricsSection(Section):
    """Metrics for Prometheus, on request."""

    port: Annotated[int, Field(ge=0, le=65_535)] | None = Field(
        default=None,
        description="Serve `/metrics` on this port of `host`; absent: not at all. 0: any free port.",
    )
    host: str = Field(default="127.0.0.1", description="The address it is served on.")


class Config(Section):
    """The whole file."""

    device: Level = Field(description="The device's name, one topic level.")
    cohort: Level = Field(description="The cohort it belongs to.")
    folder: Path = Field(description="Where outbox, last good settings and socket live; made if missing.")
    broker: BrokerSection
    trust: TrustSection
    publish: PublishSection = PublishSection()
    outbox: OutboxSection = OutboxSection()
    metrics: MetricsSection = MetricsSection()
    log: LogSection = LogSection()
    streams: Annotated[dict[Level, StreamSection], Field(min_length=1, max_length=64)]

    @field_validator("streams")
    @classmethod
    def _one_reader_of_stdin(cls, streams: dict[str, StreamSection]) -> dict[str, StreamSection]:
        if sum(stream.source.kind == "stdin" for stream in streams.values()) > 1:
            raise ValueError('standard input has one reader: give kind = "stdin" to one stream only')
        return streams


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Config:
    """The settings of a file with the environment's overrides, or Problem naming the setting that is wrong.

    Passwords, keys and certificates are read too, and recordings opened, so that a bad one is found now and not
    at the first connection or the first policy.
    """
    config = read_settings(path, Config, prefix=PREFIX, environment=environment)
    try:
        for endpoint in config.broker.endpoints():
            if endpoint.tls is not None:
                endpoint.tls.context()
        for name, stream in config.streams.items():
            _check(stream.source, f"streams.{name}.source")
    except Problem as problem:
        raise Problem(f"{path}: {problem}") from None
    return config


def _check(source: AnySource, where: str) -> None:
    """Problem where a source could never work as it is set."""
    match source:
        case Mqtt():
            endpoint = source.endpoint(where)
            if endpoint.tls is not None:
                endpoint.tls.context()
        case Serial() if find_spec("serial") is None:
            raise Problem(f"{where}.kind: 'serial' needs pyserial: pip install 'hushmq[serial]'")
        case File(replay=True):
            try:
                source.file.open("rb").close()
            except OSError as error:
                raise Problem(f"{where}.file: {source.file}: {error.strerror}") from None
