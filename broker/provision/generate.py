"""Writes a broker's complete configuration into a folder, ready to be copied to the machine that runs the broker."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision import mosquitto, nats
from hushmq.broker.provision.access_rights import ServerTls
from hushmq.broker.provision.broker_process import write_private
from hushmq.broker.provision.mosquitto_bridge import bridge
from hushmq.broker.provision.site_description import Node
from hushmq.broker.provision.site_folder import CLUSTER, SiteFolder

BrokerName = Literal["nats", "mosquitto"]
BRIDGE = "hushmq-bridge.conf"

_NAMES = (
    "nats.conf",
    "mosquitto.conf",
    "passwords",
    "acl",
    "server.pem",
    "server.key",
    "ca.pem",
    "revoked.pem",
)


def generate(broker: BrokerName, folder: SiteFolder, out: Path, *, path: Path | None = None) -> list[Path]:
    """Write the configuration into `out`, for use in the folder `path`; return the files written.

    A cluster gets one folder per node.
    """
    folder.complete()
    nodes = folder.description.nodes
    if broker == "mosquitto":
        if nodes:
            raise Problem("site.toml: nodes: Mosquitto has no cluster; use nats, or remove the nodes")
        return list(_mosquitto(folder, out, path or out.absolute()))
    if not nodes:
        return list(_nats(folder, out, path or out.absolute(), None))
    return [
        file
        for node in nodes
        for file in _nats(folder, out / node.name, path or (out / node.name).absolute(), node)
    ]


def generate_bridge(
    folder: SiteFolder, out: Path, *, path: Path | None = None, identity: str | None = None
) -> list[Path]:
    """Write the bridge of a home's Mosquitto into `out`, for use in the folder `path`; return the files written.

    It connects as `identity`, or as the only one of the site with the role `home-assistant`; raises Problem where
    that is none or not the only one.
    """
    folder.complete()
    description = folder.description
    if description.nodes:
        raise Problem(
            "site.toml: nodes: a cluster is NATS, which a bridge cannot use: see docs/home-assistant.md"
        )
    known = description.named("home-assistant")
    if identity is None and len(known) == 1:
        identity = known[0]
    if identity not in known:
        have = f"there are {', '.join(known)}" if known else "there is none: add-device --role home-assistant"
        raise Problem(f"--identity: name one with the role home-assistant; {have}")
    folder.hand_out(identity, out)
    credentials = folder.credentials(identity)
    where = path or out.absolute()
    endpoint = folder.endpoint(identity)
    text = bridge(
        description.cohort,
        identity,
        [replace(endpoint, host=host) for host in description.hosts],
        prefix=description.discovery_prefix,
        files={name: where / name for name in credentials},
    )
    (out / "password").unlink(missing_ok=True)  # it is in the file
    write_private(out / BRIDGE, text)
    return [out / BRIDGE, *(out / name for name in credentials if name != "password")]


def _copied_tls(folder: SiteFolder, out: Path, path: Path) -> ServerTls | None:
    """Copy the broker's certificates into `out`; return their places once `out` is copied to `path`."""
    tls = folder.server_tls()
    if tls is None:
        return None
    shutil.copyfile(tls.certificate, out / "server.pem")
    write_private(out / "server.key", tls.key.read_text())
    shutil.copyfile(tls.ca, out / "ca.pem")
    if tls.revoked is not None:
        shutil.copyfile(tls.revoked, out / "revoked.pem")
    return replace(
        tls,
        certificate=path / "server.pem",
        key=path / "server.key",
        ca=path / "ca.pem",
        revoked=None if tls.revoked is None else path / "revoked.pem",
    )


def _nats(folder: SiteFolder, out: Path, path: Path, node: Node | None) -> Iterator[Path]:
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    description = folder.description
    cluster = None
    if node is not None:
        routes = tuple(f"{each.host}:{each.cluster_port}" for each in description.nodes)
        cluster = nats.Cluster(node.name, node.host, node.cluster_port, routes, folder.password(CLUSTER))
    text = nats.configuration(
        folder.site(),
        host=description.listen if node is None else node.host,
        port=description.port if node is None else node.port,
        store=path / "data",
        tls=_copied_tls(folder, out, path),
        cluster=cluster,
        queue_mb=description.queue_mb,
        websocket_port=description.websocket_port,
    )
    write_private(out / "nats.conf", text)
    yield from (out / name for name in _NAMES if (out / name).exists())


def _mosquitto(folder: SiteFolder, out: Path, path: Path) -> Iterator[Path]:
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    (out / "data").mkdir(mode=0o700, exist_ok=True)
    site = folder.site()
    if folder.description.identify == "password":
        write_private(out / "passwords", mosquitto.password_file(site))
    write_private(out / "acl", mosquitto.acl_file(site))
    text = mosquitto.configuration(
        host=folder.description.listen,
        port=folder.description.port,
        folder=path,
        data=path / "data",
        tls=_copied_tls(folder, out, path),
        queue_mb=folder.description.queue_mb,
        websocket_port=folder.description.websocket_port,
    )
    write_private(out / "mosquitto.conf", text)
    yield from (out / name for name in _NAMES if (out / name).exists())
