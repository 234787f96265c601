"""The bridge by which a Mosquitto that a home already has fetches what Home Assistant shows.

It speaks MQTT 5, where a message on its way keeps the flag that makes the home's broker retain it.
"""

from __future__ import annotations

from pathlib import Path

from hushmq.broker.contract.discovery_topics import announced_filters
from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.endpoint import Endpoint


def bridge(
    cohort: str, identity: str, endpoints: list[Endpoint], *, prefix: str, files: dict[str, Path]
) -> str:
    """Return the configuration of the bridge; `files` are the identity's credentials on the home's machine."""
    topics = Topics(cohort)
    password = endpoints[0].password
    addresses = " ".join(f"{one.host}:{one.port}" for one in endpoints)
    settings = [
        f"# Releases, status and entities of the cohort {cohort}, for Home Assistant. Nothing goes the other way.",
        f"connection hushmq-{cohort}",
        f"address {addresses}",
        "bridge_protocol_version mqttv50",
        f"remote_clientid {endpoints[0].secret_client_id(f'{identity}-bridge')}",
        f"local_clientid hushmq-{cohort}-bridge",
        *([] if password is None else [f"remote_username {identity}", f"remote_password {password}"]),
        *([f"bridge_cafile {files['ca.pem']}"] if "ca.pem" in files else []),
        *([f"bridge_certfile {files['certificate.pem']}"] if "certificate.pem" in files else []),
        *([f"bridge_keyfile {files['certificate.key']}"] if "certificate.key" in files else []),
        # The site's broker grants no topic for them.
        "notifications false",
        "try_private false",
        "bridge_attempt_unsubscribe false",
        "cleansession true",
        "restart_timeout 1 30",
        *(
            f"topic {one} in 1"
            for one in (topics.all("release"), topics.all("status"), *announced_filters(prefix, cohort))
        ),
    ]
    return "\n".join(settings) + "\n"
