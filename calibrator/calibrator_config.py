"""The calibrator's settings: one TOML file, with overrides from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from hushmq.broker.contract.discovery_topics import DEFAULT_PREFIX, discovery_prefix
from hushmq.broker.contract.message_base import Level
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PrivateKey, PublicKey
from hushmq.broker.contract.topics import SHARDS
from hushmq.broker.provision import site_description
from hushmq.broker.service.settings_file import (
    BrokerSection,
    LocalPath,
    LogSection,
    PublicKeys,
    Section,
    beside_file,
    read_settings,
)

PREFIX = "HUSHMQ_CALIBRATOR__"
HOME_BROKER = "home_assistant.broker"
ALL_SHARDS = tuple(f"{number:x}" for number in range(SHARDS))


def _database_beside_file(database: str, info: ValidationInfo) -> str:
    """Return a URL; the path of a SQLite database is relative to the settings file."""
    path = sqlite_path(database)
    if path is None:
        return database  # one that is no URL is refused by whoever opens it, in words that repeat no password
    url = make_url(database).set(database=str(beside_file(path, info)))
    return url.render_as_string(hide_password=False)


def sqlite_path(database: str) -> Path | None:
    """Return the file of a SQLite database by its URL; None for any other database."""
    try:
        url = make_url(database)
    except ArgumentError:
        return None
    is_file = url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:"
    return Path(str(url.database)) if is_file else None


def mark_beside(database: str) -> Path | None:
    """Return where the ledger's high-water mark is kept by default: beside a SQLite database."""
    path = sqlite_path(database)
    return None if path is None else Path(f"{path}.mark")


DatabaseUrl = Annotated[str, AfterValidator(_database_beside_file)]
"""The URL of a database in a settings file."""


GraceS = Annotated[
    float,
    Field(
        ge=0,
        le=86_400,
        description="How long after its end a window waits for late batches before it closes.",
    ),
]
SeenEveryS = Annotated[
    float, Field(gt=0, le=3_600, description="At most one `seen` for each device in this time.")
]
CollectS = Annotated[
    float,
    Field(
        ge=0,
        le=10,
        description="How long messages of a cohort are collected before they are counted, where few arrive: "
        "every group costs a write to the disk. Under load groups fill sooner.",
    ),
]


class OpsKeysSection(Section):
    """Whose policies are followed."""

    ops_keys: PublicKeys = Field(
        min_length=1,
        description="Public keys, base64, one of which must have signed a policy; two while a key is rotated.",
    )

    @property
    def trusted(self) -> list[PublicKey]:
        return [PublicKey.parse(text) for text in self.ops_keys]


class KeysSection(OpsKeysSection):
    """Whose policies are followed, and the key that signs noise settings."""

    signing_key_file: LocalPath = Field(
        description="The private key that signs noise settings and seals the ledger's head; mode 600."
    )

    @property
    def signing_key(self) -> PrivateKey:
        return PrivateKey.load(self.signing_key_file)


class DevicesSection(Section):
    """What a device may do before it is quarantined."""

    skew_s: Annotated[float, Field(ge=0, le=86_400)] = Field(
        default=60.0, description="How far a device's clock may be ahead of ours."
    )
    messages_per_s: Annotated[float, Field(gt=0, le=10_000)] = Field(
        default=50.0, description="Batches a second that one device may send in the long run."
    )
    burst: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        default=20_000, description="Batches that one device may send at once, after it was offline for long."
    )
    strikes: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=3, description="Impossible batches after which a device is quarantined."
    )
    quarantine_s: Annotated[float, Field(ge=1, le=31_536_000)] = Field(
        default=3_600.0,
        description="How long quarantine lasts after the last offence; what is sent then is not counted, not lost.",
    )


class RosterSection(Section):
    """Which devices windows count: how fast new ones are admitted, and when silent ones leave."""

    admit_least: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=10,
        description="New devices of a stream that one window may always admit; more for a roll-out.",
    )
    admit_share: Annotated[float, Field(ge=0, le=10)] = Field(
        default=0.33, description="Or this share of the devices on the roster, if that is more."
    )
    silent_windows: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=3,
        description="So many of a stream's longest windows without a tick, or the policy's `fill_s` if that is longer, "
        "and a device leaves the roster.",
    )


class HomeAssistantSection(Section):
    """Entities for Home Assistant: shares of every window, and which devices are on line.

    They are announced to whoever may read the prefix: those with the role `home-assistant`, not subscribers.
    """

    discovery: bool = Field(
        description="Whether they are announced; `false` removes what was announced (not the copies that `broker` "
        "speaks of). Without the section: neither."
    )
    prefix: Level = Field(
        default=DEFAULT_PREFIX,
        description="Home Assistant's discovery prefix, the same as `discovery_prefix` in site.toml.",
    )
    site_file: LocalPath | None = Field(
        default=None,
        description="The site.toml whose devices have entities, so that a revoked one has none; absent: all devices "
        "that have told their status.",
    )
    broker: BrokerSection | None = Field(
        default=None,
        description="The broker that Home Assistant has already, where it is another one: releases and the status of "
        "devices are copied to it, under the same topics; absent: the site's own.",
    )

    @field_validator("prefix")
    @classmethod
    def _usable_prefix(cls, prefix: str) -> str:
        return discovery_prefix(prefix)


class MetricsSection(Section):
    """Metrics for Prometheus and health, on request."""

    port: Annotated[int, Field(ge=0, le=65_535)] | None = Field(
        default=None,
        description="Serve `/metrics`, `/health` and `/live` on this port of `host`; absent: not at all. "
        "0: any free port.",
    )
    host: str = Field(default="127.0.0.1", description="The address they are served on.")


class Config(Section):
    """The whole file."""

    cohort: Level = Field(description="The cohort this calibrator serves.")
    name: Level = Field(
        default="main", description="Tells calibrators of one cohort apart: one of each name may run."
    )
    database: DatabaseUrl = Field(
        description="SQLAlchemy URL: `sqlite:////var/lib/hushmq/ledger.db`, or `sqlite:///data/ledger.db` for a path "
        "relative to this file; `postgresql+psycopg://user@host/db`."
    )
    mark_file: LocalPath | None = Field(
        default=None,
        description="The ledger's high-water mark, outside the database; for SQLite `<database>.mark` when absent.",
    )
    shards: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        default=ALL_SHARDS, description="Shards of devices this one ingests: single digits 0 to f."
    )
    grace_s: GraceS = 60.0
    seen_every_s: SeenEveryS = 1.0
    collect_s: CollectS = 0.5
    broker: BrokerSection
    keys: KeysSection
    devices: DevicesSection = DevicesSection()
    roster: RosterSection = RosterSection()
    metrics: MetricsSection = MetricsSection()
    home_assistant: HomeAssistantSection | None = None
    log: LogSection = LogSection()

    @field_validator("shards")
    @classmethod
    def _known_shards(cls, shards: tuple[str, ...]) -> tuple[str, ...]:
        unknown = sorted(set(shards) - set(ALL_SHARDS))
        if unknown:
            raise ValueError(f"{', '.join(unknown)} is no shard: use the digits 0 to f")
        return tuple(sorted(set(shards)))

    @property
    def mark_path(self) -> Path | None:
        """Where the high-water mark is kept."""
        return mark_beside(self.database) if self.mark_file is None else self.mark_file


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Config:
    """Read a settings file; passwords, keys and certificates too, so that a bad one is found now."""
    config = read_settings(path, Config, prefix=PREFIX, environment=environment)
    for endpoint in config.broker.endpoints():
        if endpoint.tls is not None:
            endpoint.tls.context()
    _ = config.keys.signing_key
    if config.home_assistant is not None:
        _check_home_assistant(config, config.home_assistant)
    return config


def _check_home_assistant(config: Config, section: HomeAssistantSection) -> None:
    if section.site_file is not None:
        try:
            site_description.read(section.site_file)
        except Problem as problem:
            raise Problem(f"home_assistant.site_file: {problem}") from None
    if section.broker is not None:
        ours = {(one.host, one.port) for one in config.broker.endpoints()}
        for endpoint in section.broker.endpoints(HOME_BROKER):
            if endpoint.tls is not None:
                endpoint.tls.context()
            if (endpoint.host, endpoint.port) in ours:
                raise Problem(
                    f"{HOME_BROKER}.urls: {endpoint.url} is the site's own broker: leave the section out"
                )
