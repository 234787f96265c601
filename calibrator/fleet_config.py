"""The settings of a worker, which serves many cohorts: one TOML file, the same for every worker of a fleet.

A settings file with `cohorts` is one of a fleet, one with `cohort` that of a calibrator. `settings_of` gives the
settings of one cohort as a calibrator of its own would have them, so that every command about one cohort takes either.
"""

from __future__ import annotations

import os
import socket
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from hushmq.broker.contract.message_base import Level
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.service.settings_file import (
    BrokerSection,
    LocalPath,
    LogSection,
    Section,
    read_settings,
)
from hushmq.calibrator import calibrator_config
from hushmq.calibrator.calibrator_config import (
    PREFIX,
    CollectS,
    Config,
    DevicesSection,
    GraceS,
    KeysSection,
    MetricsSection,
    OpsKeysSection,
    RosterSection,
    SeenEveryS,
)
from hushmq.calibrator.store.cohort_schema import cohort_url, is_postgres, schema_of

COHORT = "{cohort}"
"""Stands for the cohort's name in a path."""


def _host_name() -> str:
    """The machine's name as far as it can be a worker's."""
    kept = "".join(
        letter if letter.isalnum() or letter in "_-" else "-" for letter in socket.gethostname().lower()
    )
    return kept[:24] or "worker"


class FleetKeysSection(OpsKeysSection):
    """Whose policies are followed, and the keys that sign noise settings."""

    signing_key_file: LocalPath = Field(
        description="The private key that signs noise settings and seals the ledger's head; mode 600. "
        f"`{COHORT}` in it stands for the cohort's name: `keys/{COHORT}.key`."
    )


class ClusterSection(BrokerSection):
    """A broker or cluster of brokers, and the cohorts whose devices connect to it."""

    cohorts: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="Names of cohorts, or patterns with `*` and `?`; a cohort is at the first cluster that matches."
    )


class FleetConfig(Section):
    """The whole file."""

    cohorts: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="The cohorts that workers with this file may serve: names, or patterns with `*` and `?`. "
        "`hushmq fleet add` adds cohorts to the database."
    )
    name: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,24}$")] = Field(
        default_factory=_host_name,
        description="Tells workers apart, at the broker too: one of each name may run. By default the machine's name.",
    )
    database: str = Field(
        description="SQLAlchemy URL of one database of PostgreSQL 14 or newer for all cohorts: "
        "`postgresql+psycopg://user@host/db`. No pooler that shares sessions may stand in between."
    )
    claim_s: Annotated[float, Field(ge=2, le=600)] = Field(
        default=10.0,
        description="Seconds after which the server ends the session of a worker that is silent (paused, or cut off), "
        "and others take its cohorts. One that was killed loses them at once.",
    )
    mark_folder: LocalPath | None = Field(
        default=None,
        description="A folder for the high-water marks of the ledgers, a file for each cohort, outside the database. "
        "The broker retains a sealed mark as well.",
    )
    grace_s: GraceS = 60.0
    seen_every_s: SeenEveryS = 1.0
    collect_s: CollectS = 0.5
    broker: BrokerSection | None = Field(default=None, description="The broker of all cohorts.")
    clusters: Mapping[Level, ClusterSection] = Field(
        default={},
        description="Or several, each with its cohorts: `[clusters.north]`. A worker has one connection to each that "
        "it needs.",
    )
    keys: FleetKeysSection
    devices: DevicesSection = DevicesSection()
    roster: RosterSection = RosterSection()
    metrics: MetricsSection = MetricsSection()
    log: LogSection = LogSection()

    @field_validator("cohorts", mode="before")
    @classmethod
    def _one_or_several(cls, given: object) -> object:
        return (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else given

    @field_validator("database")
    @classmethod
    def _of_postgres(cls, database: str) -> str:
        if not is_postgres(database):
            raise ValueError(
                "a fleet needs PostgreSQL; a calibrator with `cohort` in its file can have SQLite"
            )
        return database

    @model_validator(mode="after")
    def _one_way_to_brokers(self) -> Self:
        if (self.broker is None) == (not self.clusters):
            raise ValueError("give [broker], or [clusters.<name>] with their cohorts, and not both")
        return self

    def may_serve(self, cohort: str) -> bool:
        """Whether workers with this file may serve a cohort, and know its broker."""
        return _matches(cohort, self.cohorts) and self.cluster_of(cohort) is not None

    def cluster_of(self, cohort: str) -> str | None:
        """The cluster of a cohort; "" where there is one broker for all, None where no cluster has it."""
        if self.broker is not None:
            return ""
        return next((name for name, one in self.clusters.items() if _matches(cohort, one.cohorts)), None)

    def broker_of(self, cluster: str) -> BrokerSection:
        """How the broker of a cluster is reached."""
        return self.broker if self.broker is not None else self.clusters[cluster]

    @property
    def named(self) -> list[str]:
        """The cohorts that are named and not matched by a pattern."""
        return [name for name in self.cohorts if not set(name) & set("*?[")]

    def mark_path(self, cohort: str) -> Path | None:
        """Where the high-water mark of a cohort's ledger is kept."""
        return None if self.mark_folder is None else self.mark_folder / f"{cohort}.mark"

    def signing_key_file(self, cohort: str) -> Path:
        """The file of the private key of a cohort."""
        return Path(str(self.keys.signing_key_file).replace(COHORT, cohort))

    def signing_key(self, cohort: str) -> PrivateKey:
        """The private key of a cohort; Problem where it cannot be read."""
        return PrivateKey.load(self.signing_key_file(cohort))

    def settings_of(self, cohort: str) -> Config:
        """The settings that a calibrator of this cohort alone would have."""
        cluster = self.cluster_of(cohort)
        if not self.may_serve(cohort) or cluster is None:
            raise Problem(f"--cohort: {cohort!r} is none of this file's: cohorts = {list(self.cohorts)}")
        return Config(
            cohort=cohort,
            name=self.name,
            database=cohort_url(self.database, cohort),
            mark_file=self.mark_path(cohort),
            grace_s=self.grace_s,
            seen_every_s=self.seen_every_s,
            collect_s=self.collect_s,
            broker=BrokerSection(**self.broker_of(cluster).model_dump(exclude={"cohorts"})),
            keys=KeysSection(ops_keys=self.keys.ops_keys, signing_key_file=self.signing_key_file(cohort)),
            devices=self.devices,
            roster=self.roster,
            metrics=self.metrics,
            log=self.log,
        )


def _matches(cohort: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(cohort, one) for one in patterns)


def is_fleet(path: Path, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a settings file is one of a fleet; one that cannot be read is not."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return "cohorts" in tree or f"{PREFIX}COHORTS" in environment


def load_fleet(path: Path, environment: Mapping[str, str] = os.environ) -> FleetConfig:
    """Read a fleet's settings file; passwords and certificates too, so that a bad one is found now."""
    config = read_settings(path, FleetConfig, prefix=PREFIX, environment=environment)
    for cluster in config.clusters or ("",):
        section = "broker" if not cluster else f"clusters.{cluster}"
        for endpoint in config.broker_of(cluster).endpoints(section):
            if endpoint.tls is not None:
                endpoint.tls.context()
    for cohort in config.named:
        schema_of(cohort)
        _ = config.signing_key(cohort)
    return config


def load(path: Path, cohort: str | None = None, environment: Mapping[str, str] = os.environ) -> Config:
    """Read the settings of one cohort: a calibrator's file, or with `cohort` a fleet's."""
    if not is_fleet(path, environment):
        config = calibrator_config.load(path, environment)
        if cohort not in {None, config.cohort}:
            raise Problem(f"--cohort: {path} is the file of the cohort {config.cohort!r}, not of {cohort!r}")
        return config
    if cohort is None:
        raise Problem(f"--cohort: {path} is the file of a fleet: name the cohort")
    return load_fleet(path, environment).settings_of(cohort)
