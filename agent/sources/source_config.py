"""The configuration of a stream's source: one model for each type of source."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from hushmq.agent.sources.parse_value import Reader
from hushmq.agent.sources.simulated_source import stationary
from hushmq.broker.contract.message_base import Probability
from hushmq.broker.contract.problem import Problem
from hushmq.broker.mqtt.endpoint import Endpoint, Tls, refuse_clear_text
from hushmq.broker.service.settings_file import LocalPath, Section, TlsSection, read_secret

Milliseconds = Annotated[int, Field(ge=1, le=86_400_000)]
JsonPath = Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)*$")]
TOPIC_FILTER = re.compile(r"#|(\+|[^+#/\x00]*)(/(\+|[^+#/\x00]*))*(/#)?")


class Simulate(Section):
    """A seeded two-state chain, for demonstrations and tests: its state at a tick is a pure function of these."""

    kind: Literal["simulate"]
    q: Probability = Field(description="P(0→1).")
    r: Probability = Field(description="P(1→0).")
    seed: int = Field(description="Seed of the chain.")
    start_tick: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="The chain's first tick, at most 10⁸ ticks ago; absent: the first tick sampled.",
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
        description="The value emitted in each state: a number or a label, as the discretiser expects it."
    )
    seed: int = Field(description="Seed of the chain.")
    start_tick: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="The chain's first tick, at most 10⁸ ticks ago; absent: the first tick sampled.",
    )

    @model_validator(mode="after")
    def _a_chain(self) -> Self:
        k = len(self.transition)
        for number, row in enumerate(self.transition):
            if len(row) != k or not abs(sum(row) - 1) <= 1e-9:
                raise ValueError(f"transition row {number} must have {k} probabilities that sum to 1")
        if len(self.values) != k:
            raise ValueError(f"there must be {k} values, one for each row of transition")
        stationary(self.transition)  # raises for a state that cannot reach the ones before it
        return self


class Resampled(Section):
    """Settings of sources whose values arrive at any time."""

    silent_after_ms: Milliseconds | None = Field(
        default=None,
        description="After so long without a value `hushmq agent status` says so, on the device only: the last "
        "value is published on, because a gap would tell when values came.",
    )

    @model_validator(mode="before")
    @classmethod
    def _no_maximum_age(cls, tree: Any) -> Any:
        if isinstance(tree, dict) and "max_age_ms" in tree:
            raise ValueError(
                "max_age_ms made a gap of a value that was older, and gaps tell when values came: the last value is "
                "now held; remove it, or write silent_after_ms for a hint in `hushmq agent status`"
            )
        return tree


class Text(Resampled):
    """Settings of sources whose values arrive as text."""

    form: Literal["number", "label", "json"] = Field(
        default="number", description="The form of a line or payload."
    )
    json_path: JsonPath | None = Field(
        default=None,
        description="The path of the value in JSON: names joined by dots; a number is an index into a list.",
    )
    where: dict[JsonPath, bool | int | float | str] = Field(
        default={},
        description="JSON is ignored unless each of these paths has the given value, e.g. `{id = 42}`.",
    )

    @model_validator(mode="after")
    def _json_only(self) -> Self:
        if self.form != "json" and (self.json_path is not None or self.where):
            raise ValueError('json_path and where need form = "json"')
        return self

    def reader(self) -> Reader:
        return Reader(self.form, self.json_path, self.where)


class Offered(Resampled):
    """Values that the program that embeds the agent passes to `Agent.offer`."""

    kind: Literal["offer"]


class Stdin(Text):
    """One value per line of standard input."""

    kind: Literal["stdin"]


class File(Text):
    """One value per line of a growing file, or a recording replayed at one line per tick."""

    kind: Literal["file"]
    file: LocalPath = Field(description="The file.")
    replay: bool = Field(
        default=False, description="Read one line per tick from the beginning, instead of following the file."
    )
    repeat: bool = Field(default=False, description="With `replay`: start again after the last line.")

    @model_validator(mode="after")
    def _replay_only(self) -> Self:
        if self.repeat and not self.replay:
            raise ValueError("repeat needs replay = true")
        return self


class Serial(Text):
    """One value per line of a serial port; requires the extra `serial`."""

    kind: Literal["serial"]
    port: str = Field(description="The port, e.g. `/dev/ttyUSB0`.")
    baud: Annotated[int, Field(ge=50, le=4_000_000)] = Field(default=9600, description="Its baud rate.")


class Mqtt(Text):
    """A topic on a local broker, to which zigbee2mqtt, Tasmota, rtl_433 or ESPHome publish, for example."""

    kind: Literal["mqtt"]
    url: str = Field(
        description="The local broker: `mqtt://host[:port]`, `mqtts://host[:port]` with TLS, over WebSocket `ws://` or "
        "`wss://`."
    )
    topic: Annotated[str, Field(min_length=1)] = Field(
        description="The topic; `+` matches any level, and `/#` at the end all levels below."
    )
    username: str | None = Field(default=None, description="The identity at that broker.")
    password_file: LocalPath | None = Field(
        default=None, description="A file with the password, readable only by its owner."
    )
    password_in_clear_text: bool = Field(
        default=False,
        description="Accept that everybody on the network can read the password: only then is it sent without TLS to "
        "another host than this one.",
    )
    retained: bool = Field(
        default=False, description="Whether a retained message, which may be old, is accepted as a value."
    )
    tls: TlsSection | None = Field(
        default=None, description="Required for `mqtts` with a private authority or client certificates."
    )

    @field_validator("topic")
    @classmethod
    def _filter(cls, topic: str) -> str:
        if not TOPIC_FILTER.fullmatch(topic):
            raise ValueError("+ and # stand for whole levels, # for the last only, as in a/+/c/#")
        return topic

    def endpoint(self, where: str = "source") -> Endpoint:
        """The local broker; raises Problem, naming a setting of `where`, for a bad address or password file."""
        password = None
        if self.password_file is not None:
            password = read_secret(self.password_file, f"{where}.password_file")
        tls = None if self.tls is None else Tls(self.tls.ca, self.tls.certificate, self.tls.key)
        try:
            found = Endpoint.parse(self.url, username=self.username, password=password, tls=tls)
        except Problem as problem:
            raise Problem(f"{where}.url: {problem}") from None
        if not self.password_in_clear_text:
            refuse_clear_text([found], setting=f"{where}.url", risk=f"{where}.password_in_clear_text = true")
        return found


AnySource = Simulate | SimulateStates | Offered | Stdin | File | Serial | Mqtt


def check_source(source: AnySource, where: str) -> None:
    """Raise Problem if a source could never work as it is configured."""
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
