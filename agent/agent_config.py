"""The device's configuration file: broker, trusted keys and limits, and the source of each stream.

TOML, read once at start and again on SIGHUP. An environment variable overrides one setting:
`HUSHMQ_AGENT__BROKER__USERNAME=pi` is `broker.username = "pi"`; its text is read as a TOML value where it is
one and as a string otherwise. An invalid file raises one Problem that names the setting.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from hushmq.agent.sources.source_config import AnySource, Milliseconds, check_source
from hushmq.broker.contract.message_base import Level, Probability
from hushmq.broker.contract.problem import Problem
from hushmq.broker.service.settings_file import (
    BrokerSection,
    LocalPath,
    LogSection,
    PublicKeys,
    Section,
    read_settings,
)

PREFIX = "HUSHMQ_AGENT__"


class TrustSection(Section):
    """Keys whose signatures this device accepts, and the limits it enforces on what they sign."""

    ops_keys: PublicKeys = Field(
        min_length=1, description="Public keys, base64, one of which must have signed a policy."
    )
    calibrator_keys: PublicKeys = Field(
        min_length=1, description="Public keys, base64, one of which must have signed a noise setting."
    )
    epsilon_max: Annotated[float, Field(gt=0, le=20)] = Field(
        description="The largest ε that a policy may allow any audience; a policy with a larger one is refused."
    )
    rho_min: Probability = Field(
        default=0.001,
        description="The smallest probability of an output that a noise setting may have; one with less is refused.",
    )


class PublishSection(Section):
    """When batches are published."""

    beat_ms: Annotated[int, Field(ge=1, le=3_600_000)] = Field(
        default=10_000,
        description="The interval at which a batch is made, stored and sent, whatever the values are.",
    )
    status_ms: Milliseconds = Field(
        default=60_000,
        description="The interval of `status` messages: one is sent with the first beat after it. New and refused "
        "settings and a new connection are reported at once, unless presence is hidden.",
    )
    window: Annotated[int, Field(ge=1, le=50)] = Field(
        default=20, description="The maximum number of batches that await the broker's acknowledgement."
    )
    resend_ms: Milliseconds = Field(
        default=60_000,
        description="A batch not `seen` within this time is sent again; the time doubles with each attempt, "
        "up to an hour.",
    )
    presence: Literal["shown", "hidden"] = Field(
        default="shown",
        description="`hidden`: no last will, no final `status`, and `status` at fixed moments only, so that a start, "
        "a stop or a reconnect leaves no trace in a retained topic; `online` is then unknown to the site.",
    )
    linger_ms: Annotated[int, Field(ge=0, le=2_500)] = Field(
        default=2_000, description="At a stop, the longest wait for the calibrator to have `seen` everything."
    )

    @property
    def hidden(self) -> bool:
        """Whether presence is hidden."""
        return self.presence == "hidden"


class OutboxSection(Section):
    """Limits of the outbox; beyond them the oldest batch is dropped first, and counted."""

    max_bytes: Annotated[int, Field(ge=1_024, le=2**40)] = Field(
        default=64 * 2**20,
        description="The maximum size of all waiting batches; each takes its bytes and 64 more.",
    )
    max_age_s: Annotated[int, Field(ge=1, le=10 * 366 * 86_400)] = Field(
        default=30 * 86_400, description="The maximum age of a waiting batch."
    )


class StreamSection(Section):
    """One stream of this device."""

    source: Annotated[AnySource, Field(discriminator="kind")] = Field(description="The source of its values.")


class MetricsSection(Section):
    """Metrics for Prometheus."""

    port: Annotated[int, Field(ge=0, le=65_535)] | None = Field(
        default=None,
        description="The port on which `/metrics` is served; absent: it is not served; 0: any free port.",
    )
    host: str = Field(default="127.0.0.1", description="The address on which `/metrics` is served.")


class Config(Section):
    """The settings of one device: its broker, the keys and limits it trusts, and its streams."""

    device: Level = Field(description="The device's name, one topic level.")
    cohort: Level = Field(description="The device's cohort.")
    folder: LocalPath = Field(
        description="The folder of the outbox, the applied settings and the socket; created if missing."
    )
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
    """Read the file and the environment's overrides; raises Problem, which names the setting that is wrong.

    Also reads passwords, keys and certificates and opens recordings, so that a bad one is reported now and not at the
    first connection or policy.
    """
    config = read_settings(path, Config, prefix=PREFIX, environment=environment)
    try:
        for endpoint in config.broker.endpoints():
            if endpoint.tls is not None:
                endpoint.tls.context()
        for name, stream in config.streams.items():
            check_source(stream.source, f"streams.{name}.source")
    except Problem as problem:
        raise Problem(f"{path}: {problem}") from None
    return config
