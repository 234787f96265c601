"""A site's description, `site.toml`, from which the configuration of every broker is generated.

It contains no secrets: passwords and keys are in files beside it (see broker/provision/site_folder.py).
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from hushmq.broker.contract.discovery_topics import DEFAULT_PREFIX, discovery_prefix
from hushmq.broker.contract.message_base import Level
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import COHORT
from hushmq.broker.mqtt.endpoint import is_loopback
from hushmq.broker.provision.access_rights import ROLES, Role
from hushmq.broker.provision.broker_process import write_private
from hushmq.broker.service.settings_file import LocalPath

Port = Annotated[int, Field(ge=1, le=65_535)]
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9.:_-]{1,253}$")]

FIELDS: dict[Role, str] = {
    "ops": "ops",
    "calibrator": "calibrators",
    "device": "devices",
    "subscriber": "subscribers",
    "console": "consoles",
    "home-assistant": "home_assistants",
}


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class CertificateFiles(_Section):
    """A certificate from another authority: the broker's certificate, its key, and the authority that clients trust."""

    certificate: Annotated[LocalPath, Field(strict=False)] = Field(
        description="The broker's certificate, PEM."
    )
    key: Annotated[LocalPath, Field(strict=False)] = Field(
        description="The private key of that certificate, PEM."
    )
    ca: Annotated[LocalPath, Field(strict=False)] = Field(
        description="The certificate authority that clients trust, PEM."
    )


class Node(_Section):
    """One node of a NATS cluster of three or five nodes; each is one `[[nodes]]` table."""

    name: Level = Field(description="The node's name, unique in the cluster.")
    host: Host = Field(description="The name or address by which clients and the other nodes reach the node.")
    port: Port = Field(default=8883, description="The port on which it listens to clients.")
    cluster_port: Port = Field(default=6222, description="The port on which it listens to the other nodes.")


def _names(what: str) -> Any:
    return Field(strict=False, description=f"Names of {what}; each has its own secret.")


class AddedCohort(_Section):
    """One more cohort at the same brokers, for a fleet; each is one `[[cohorts]]` table.

    Operators, calibrators and consoles of the site use all cohorts; devices and subscribers only their own.
    """

    name: Level = Field(description="The cohort's name, as in its topics.")
    devices: Annotated[tuple[Level, ...], _names("its devices, different from all others of the site")] = ()
    subscribers: Annotated[tuple[Level, ...], _names("subscribers, who may read its releases only")] = ()


class Description(_Section):
    """Which identities may connect, and where. All others are refused."""

    cohort: Level = Field(description="The cohort whose topics this broker carries.")
    hosts: Annotated[tuple[Host, ...], Field(min_length=1, strict=False)] = Field(
        description="Names and addresses by which the broker is reached; devices are configured with the first."
    )
    listen: Host = Field(default="0.0.0.0", description="The address on which the broker listens.")  # noqa: S104  # a broker must be reachable
    port: Port = Field(default=8883, description="The port on which the broker listens.")
    websocket_port: Port | None = Field(
        default=None,
        description="A second port, for MQTT over WebSocket (`wss://host:port/mqtt`): for clients behind a proxy.",
    )
    tls: Literal["own-authority", "none"] | CertificateFiles = Field(
        default="own-authority",
        description="Certificates from the site's private authority, or existing files; `none` on loopback only.",
    )
    identify: Literal["password", "certificate"] = Field(
        default="password", description="How clients authenticate; `certificate` is mutual TLS."
    )
    queue_mb: Annotated[int, Field(ge=16, le=2**30)] | None = Field(
        default=None,
        description="Megabytes that may be queued for absent readers. When they are full, NATS keeps acknowledged "
        "messages and accepts no more (absent: three quarters of the free disk); Mosquitto drops messages, for each "
        "reader (absent: a million messages). Devices send again whatever was not counted.",
    )
    ops: Annotated[tuple[Level, ...], _names("operators who push policies and may read everything")] = (
        "ops",
    )
    calibrators: Annotated[tuple[Level, ...], _names("calibrators")] = ("calibrator",)
    subscribers: Annotated[tuple[Level, ...], _names("subscribers, who may read releases only")] = (
        "subscriber",
    )
    devices: Annotated[tuple[Level, ...], _names("devices, as in their topics")] = ()
    consoles: Annotated[tuple[Level, ...], _names("consoles, which read all but the noisy stream")] = ()
    home_assistants: Annotated[
        tuple[Level, ...],
        _names(
            "Home Assistants and bridges to them, which read releases, status and what is announced to them"
        ),
    ] = ()
    discovery_prefix: Level = Field(
        default=DEFAULT_PREFIX,
        description="Home Assistant's discovery prefix, below which the calibrator alone may announce entities.",
    )
    nodes: Annotated[tuple[Node, ...], Field(strict=False)] = ()
    cohorts: Annotated[tuple[AddedCohort, ...], Field(strict=False)] = ()

    @field_validator("discovery_prefix")
    @classmethod
    def _usable_prefix(cls, prefix: str) -> str:
        return discovery_prefix(prefix)

    @model_validator(mode="after")
    def _sound(self) -> Self:
        for what, found in (
            ("identities", [name for role in ROLES for name in self.named(role)]),
            ("cohorts", [self.cohort, *(one.name for one in self.cohorts)]),
        ):
            twice = [name for name, count in Counter(found).items() if count > 1]
            if twice:
                raise ValueError(f"{twice[0]} is named twice; {what} must have different names")
        if COHORT in self.named("device"):
            raise ValueError(
                f"devices: no device may have the name {COHORT!r}: it could publish the cohort's releases"
            )
        if self.tls == "none" and not all(
            map(is_loopback, (self.listen, *(node.host for node in self.nodes)))
        ):
            raise ValueError(
                'tls = "none" sends passwords in clear text: it is allowed with listen = "127.0.0.1" only'
            )
        if self.identify == "certificate" and self.tls != "own-authority":
            raise ValueError(
                'identify = "certificate" needs tls = "own-authority", which signs the certificates'
            )
        if self.nodes and (
            len(self.nodes) not in {3, 5} or len({node.name for node in self.nodes}) < len(self.nodes)
        ):
            raise ValueError("nodes: a cluster has 3 or 5 nodes with different names")
        return self

    def named(self, role: Role) -> tuple[str, ...]:
        """Return the names of a role's identities, those of added cohorts included."""
        return (*self.own(role), *(name for one in self.cohorts for name in getattr(one, FIELDS[role], ())))

    def own(self, role: Role) -> tuple[str, ...]:
        """Return the names of a role's identities that belong to no added cohort."""
        names: tuple[str, ...] = getattr(self, FIELDS[role])
        return names

    def cohort_of(self, name: str) -> str | None:
        """Return the added cohort that an identity belongs to; None for the site's other identities."""
        found = (one.name for one in self.cohorts if name in (*one.devices, *one.subscribers))
        return next(found, None)

    def with_names(self, role: Role, names: tuple[str, ...]) -> Description:
        """Return a description in which the role has these names, beside those of added cohorts."""
        return parse({**self.model_dump(), FIELDS[role]: names})

    def without_name(self, name: str) -> Description:
        """Return a description in which no role has this name."""
        tree = self.model_dump()
        for part in (tree, *tree["cohorts"]):
            for names in FIELDS.values():
                if names in part:
                    part[names] = tuple(each for each in part[names] if each != name)
        return parse(tree)

    def role(self, name: str) -> Role | None:
        return next((role for role in ROLES if name in self.named(role)), None)

    @property
    def urls(self) -> list[str]:
        """The broker addresses for a device's configuration."""
        scheme = "mqtt" if self.tls == "none" else "mqtts"
        if self.nodes:
            return [f"{scheme}://{node.host}:{node.port}" for node in self.nodes]
        return [f"{scheme}://{self.hosts[0]}:{self.port}"]

    @property
    def certified_hosts(self) -> list[str]:
        """The hosts that the broker's certificate must name."""
        return list(dict.fromkeys((*self.hosts, *(node.host for node in self.nodes))))


def parse(tree: object, source: str = "site.toml", folder: Path | None = None) -> Description:
    """Return the description in a parsed file; raise Problem that names the invalid setting and its rule.

    Relative paths are relative to `folder`.
    """
    try:
        return Description.model_validate(tree, context={"folder": folder})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        rule = first["msg"].removeprefix("Value error, ")
        raise Problem(f"{source}: {where}: {rule}" if where else f"{source}: {rule}") from None


def read(path: Path) -> Description:
    try:
        tree = tomllib.loads(path.read_text())
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}; create a site with hushmq broker init") from None
    except (ValueError, RecursionError) as error:
        raise Problem(f"{path} is not TOML: {error}") from None
    return parse(tree, str(path), path.absolute().parent)


def write(path: Path, description: Description) -> None:
    """Write the description as TOML; comments that a person has added to the file are lost."""
    lines = ["# Written by hushmq broker. You may edit it; then run hushmq broker config again."]
    tables = list[str]()
    for name, value in description.model_dump(mode="json", exclude_none=True).items():
        if isinstance(value, dict):
            tables += ["", f"[{name}]", *(f"{key} = {toml_value(item)}" for key, item in value.items())]
        elif name in {"nodes", "cohorts"}:
            for one in value:
                tables += ["", f"[[{name}]]", *(f"{key} = {toml_value(item)}" for key, item in one.items())]
        else:
            lines.append(f"{name} = {toml_value(value)}")
    write_private(path, "\n".join([*lines, *tables]) + "\n")


def toml_value(value: str | int | list[str]) -> str:
    """Return a value in TOML."""
    # JSON's strings, numbers and lists of strings are valid TOML.
    return json.dumps(value, ensure_ascii=False)
