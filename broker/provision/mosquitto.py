"""Mosquitto, the broker that most sites already run: its configuration, and Mosquitto as a child process.

Its defaults lose acknowledged messages: a queue is limited to 1000 messages, and a crash loses all changes since the
last half-hourly save. The configuration here removes the first limit and saves by the clock, every other second: where
it saved at every change, writing its whole store each time, it came to a standstill with a long queue. What a crash
takes of the last two seconds heals (docs/faults.md).
"""

from __future__ import annotations

import os
from base64 import b64encode
from hashlib import pbkdf2_hmac
from pathlib import Path

from hushmq.broker.provision.access_rights import LARGEST_PACKET, ServerTls, Site
from hushmq.broker.provision.broker_process import BrokerProcess, find_executable, write_private

ABSENCE_DAYS = 14
"""Days after which the session of an absent client is deleted with its queue. Otherwise the queues of clients that
never return (a new password means a new session) would fill the disk.
"""
ITERATIONS = 101
"""The default of mosquitto_passwd. Passwords are random, so that guessing is hopeless even with a fast hash."""


def executable() -> Path:
    """Return mosquitto's executable, from PATH or from where Debian installs it; raise Problem without one."""
    return find_executable(
        "mosquitto", "install the package mosquitto (Debian: apt install mosquitto)", Path("/usr/sbin")
    )


def password_line(name: str, password: str) -> str:
    """Return one line of a password file: PBKDF2 with SHA-512, as mosquitto_passwd of version 2 writes it."""
    salt = os.urandom(12)
    digest = pbkdf2_hmac("sha512", password.encode(), salt, ITERATIONS)
    return f"{name}:$7${ITERATIONS}${b64encode(salt).decode()}${b64encode(digest).decode()}"


def password_file(site: Site) -> str:
    return "".join(f"{password_line(identity.name, identity.password)}\n" for identity in site.identities)


def acl_file(site: Site) -> str:
    lines: list[str] = []
    for identity in site.identities:
        granted = site.rights(identity)
        lines.append(f"user {identity.name}")
        lines += [f"topic write {name}" for name in granted.publish]
        lines += [f"topic read {name}" for name in granted.subscribe]
        lines.append("")
    return "\n".join(lines)


def _tls(tls: ServerTls) -> list[str]:
    settings = [f"certfile {tls.certificate}", f"keyfile {tls.key}", "tls_version tlsv1.2"]
    if tls.identities is not None:
        settings += [f"cafile {tls.ca}", "require_certificate true", "use_identity_as_username true"]
        if tls.revoked is not None:
            settings.append(f"crlfile {tls.revoked}")
    return settings


def configuration(
    *,
    host: str,
    port: int,
    folder: Path,
    data: Path,
    tls: ServerTls | None = None,
    queue_mb: int | None = None,
    websocket_port: int | None = None,
) -> str:
    """Return the main configuration file; passwords and access rights are in separate files in `folder`."""
    by_certificate = tls is not None and tls.identities is not None
    settings = [
        f"listener {port} {host}",
        *([] if tls is None else _tls(tls)),
        *([] if websocket_port is None else [f"listener {websocket_port} {host}", "protocol websockets"]),
        *([] if websocket_port is None or tls is None else _tls(tls)),
        "allow_anonymous false",
        *([] if by_certificate else [f"password_file {folder / 'passwords'}"]),
        f"acl_file {folder / 'acl'}",
        "persistence true",
        f"persistence_location {data}/",
        # By the clock, not by changes: each time the whole store is written, so that a broker with a backlog that saved
        # at every message would do nothing else, and never get rid of the backlog.
        "autosave_on_changes false",
        "autosave_interval 1",
        # Not 0, which is documented as no limit but is one: https://github.com/eclipse-mosquitto/mosquitto/issues/3244
        "max_queued_messages 1000000",
        # Clients that speak MQTT 5 may have so many messages on their way, and would have to do with 20.
        "max_inflight_messages 100",
        f"max_queued_bytes {(queue_mb or 0) * 2**20}",
        f"persistent_client_expiration {ABSENCE_DAYS}d",
        f"message_size_limit {LARGEST_PACKET}",
        "set_tcp_nodelay true",
        "log_dest stderr",
        "log_type error",
        "log_type warning",
        "log_type notice",
        "log_type information",
        "connection_messages false",
    ]
    return "\n".join(settings) + "\n"


class MosquittoServer(BrokerProcess):
    """Mosquitto as a child process that keeps all its files in one folder."""

    ready = " running"
    reloaded = "Reloading config"

    def command(self) -> list[str]:
        return [str(executable()), "-c", str(self.write_configuration())]

    def write_configuration(self) -> Path:
        """Write passwords, access rights and the main configuration file; return the path of the latter."""
        write_private(self.folder / "passwords", password_file(self.site))
        write_private(self.folder / "acl", acl_file(self.site))
        file = self.folder / "mosquitto.conf"
        text = configuration(
            host=self.host,
            port=self.port,
            folder=self.folder,
            data=self.folder,
            tls=self.tls,
            websocket_port=self.websocket_port,
        )
        if os.geteuid() == 0:
            text += "user root\n"  # otherwise it switches to a user who cannot read these files
        write_private(file, text)
        return file
