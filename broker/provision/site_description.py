"""A site's description, `site.toml`: the one text that the configuration of every broker is generated from.

It holds no secrets: passwords and keys lie beside it (see broker/provision/site_folder.py).
"""

from __future__ import annotations

import ipaddress
import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hushmq.broker.contract.message_base import Level
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import COHORT
from hushmq.broker.provision.access_rights import ROLES, Role
from hushmq.broker.provision.broker_process import write_private

Port = Annotated[int, Field(ge=1, le=65_535)]
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9.:_-]{1,253}$")]

FIELDS: dict[Role, str] = {
    "ops": "ops",
    "calibrator": "calibrators",
    "device": "devices",
    "subscriber": "subscribers",
}


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class OwnFiles(_Section):
    """A certificate from elsewhere: the broker's, its key, and the authority that clients are to trust."""

    certificate: Annotated[Path, Field(strict=False)] = Field(description="The broker's certificate, PEM.")
    key: Annotated[Path, Field(strict=False)] = Field(description="Its key, PEM.")
    ca: Annotated[Path, Field(strict=False)] = Field(
        description="The authority that clients are to trust, PEM."
    )


class Node(_Section):
    """One node of a NATS cluster, which has three of them or five; written `[[nodes]]`, once for each."""

    name: Level = Field(description="The node's name, unlike the others'.")
    host: Host = Field(description="The name or address by which clients and the other nodes reach it.")
    port: Port = Field(default=8883, description="Where it listens to clients.")
    cluster_port: Port = Field(default=6222, description="Where it listens to the other nodes.")


def _names(what: str) -> Any:
    return Field(strict=False, description=f"Names of {what}, each with a secret of its own.")


class Description(_Section):
    """Who may connect, and where. Whoever is in no list is not let in."""

    cohort: Level = Field(description="The cohort whose topics this broker carries.")
    hosts: Annotated[tuple[Host, ...], Field(min_length=1, strict=False)] = Field(
        description="Names and addresses by which the broker is reached, the one to tell devices first."
    )
    listen: Host = Field(default="0.0.0.0", description="The address it listens on.")  # noqa: S104  # it is there to be reached
    port: Port = Field(default=8883, description="The port it listens on.")
    tls: Literal["own-authority", "none"] | OwnFiles = Field(
        default="own-authority",
        description="Certificates from the site's own authority, or files from elsewhere; `none` on loopback only.",
    )
    identify: Literal["password", "certificate"] = Field(
        default="password", description="How everyone proves who they are; `certificate` is mutual TLS."
    )
    queue_mb: Annotated[int, Field(ge=16, le=2**30)] | None = Field(
        default=None,
        description="Megabytes that may wait for absent readers. NATS keeps all it has acknowledged and takes no "
        "more (absent: three quarters of the free disk); Mosquitto drops beyond it, for each reader (absent: a "
        "million messages). Devices send again what was not counted.",
    )
    ops: Annotated[tuple[Level, ...], _names("those who push policies and may read everything")] = ("ops",)
    calibrators: Annotated[tuple[Level, ...], _names("calibrators")] = ("calibrator",)
    subscribers: Annotated[tuple[Level, ...], _names("those who may read releases only")] = ("subscriber",)
    devices: Annotated[tuple[Level, ...], _names("devices, as in their topics")] = ()
    nodes: Annotated[tuple[Node, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _sound(self) -> Self:
        names = [name for role in ROLES for name in self.named(role)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name} is named twice; every identity has a name of its own")
        if COHORT in self.devices:
            raise ValueError(
                f"devices: none may be called {COHORT!r}: it could publish the cohort's releases"
            )
        if self.tls == "none" and not all(map(_loopback, (self.listen, *(node.host for node in self.nodes)))):
            raise ValueError(
                'tls = "none" sends passwords in clear: it is allowed with listen = "127.0.0.1" only'
            )
        if self.identify == "certificate" and self.tls != "own-authority":
            raise ValueError(
                'identify = "certificate" needs tls = "own-authority", which signs the certificates'
            )
        if self.nodes and (
            len(self.nodes) not in {3, 5} or len({node.name for node in self.nodes}) < len(self.nodes)
        ):
            raise ValueError("nodes: a cluster has 3 or 5 nodes, each with a name of its own")
        return self

    def named(self, role: Role) -> tuple[str, ...]:
        """The names in a role."""
        names: tuple[str, ...] = getattr(self, FIELDS[role])
        return names

    def with_names(self, role: Role, names: tuple[str, ...]) -> Description:
        """The description with the role filled otherwise."""
        return parse({**self.model_dump(), FIELDS[role]: names})

    def role(self, name: str) -> Role | None:
        return next((role for role in ROLES if name in self.named(role)), None)

    @property
    def urls(self) -> list[str]:
        """The addresses for a device's configuration."""
        scheme = "mqtt" if self.tls == "none" else "mqtts"
        if self.nodes:
            return [f"{scheme}://{node.host}:{node.port}" for node in self.nodes]
        return [f"{scheme}://{self.hosts[0]}:{self.port}"]

    @property
    def certified_hosts(self) -> list[str]:
        """What the broker's certificate has to name."""
        return list(dict.fromkeys((*self.hosts, *(node.host for node in self.nodes))))


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def parse(tree: object, source: str = "site.toml") -> Description:
    """A description from its parsed text; Problem names the setting and the rule."""
    try:
        return Description.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise Problem(f"{source}: {where}: {said}" if where else f"{source}: {said}") from None


def read(path: Path) -> Description:
    try:
        tree = tomllib.loads(path.read_text())
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}; make a site with hushmq broker init") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Problem(f"{path} is no TOML: {error}") from None
    return parse(tree, str(path))


def write(path: Path, description: Description) -> None:
    """Write the description as TOML that `read` reads; comments of a person's own are not kept."""
    lines = ["# Written by hushmq broker; edit as you like, then run hushmq broker config again."]
    tables = list[str]()
    for name, value in description.model_dump(mode="json", exclude_none=True).items():
        if isinstance(value, dict):
            tables += ["", f"[{name}]", *(f"{key} = {toml_value(item)}" for key, item in value.items())]
        elif name == "nodes":
            for node in value:
                tables += ["", "[[nodes]]", *(f"{key} = {toml_value(item)}" for key, item in node.items())]
        else:
            lines.append(f"{name} = {toml_value(value)}")
    write_private(path, "\n".join([*lines, *tables]) + "\n")


def toml_value(value: str | int | list[str]) -> str:
    """A value as TOML has it."""
    # JSON's strings, numbers and lists of strings are TOML's as well.
    return json.dumps(value, ensure_ascii=False)
