"""Units for systemd, written for the folders and the program that are there.

A unit gives its process as little as it needs: no other user's files, no devices, no capabilities, the system calls of
a service, the network and one folder to write to.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

HARDENED = """NoNewPrivileges=yes
ProtectSystem=strict
PrivateTmp=yes
PrivateMounts=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
ProcSubset=pid
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
CapabilityBoundingSet=
AmbientCapabilities=
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
UMask=0077
LimitCORE=0"""


def program() -> str:
    """Return the command that starts this program, as units need it: absolute."""
    beside = Path(sys.executable).parent / "hushmq"
    return str(beside) if beside.is_file() else f"{sys.executable} -P -m hushmq"


def unit(
    description: str,
    arguments: Sequence[str],
    *,
    user: str,
    writable: Path,
    notifies: bool = False,
    more: str = "",
    private_devices: bool = True,
) -> str:
    """Return a unit that runs `hushmq` with these arguments as a user who may write one folder."""
    lines = [
        "[Unit]",
        f"Description={description}",
        "After=network-online.target time-sync.target",
        "Wants=network-online.target",
        "",
        "[Service]",
        f"ExecStart={program()} {' '.join(map(_quoted, arguments))}",
        *(["Type=notify", "ExecReload=/bin/kill -HUP $MAINPID", "WatchdogSec=60"] if notifies else []),
        "Restart=always",
        "RestartSec=5",
        "TimeoutStopSec=15",
        f"User={user}",
        f"ReadWritePaths={_quoted(str(writable))}",
        # A site may live in a home; everything of it but this folder can then only be read.
        f"ProtectHome={'read-only' if writable.is_relative_to('/home') or writable.is_relative_to('/root') else 'yes'}",
        *(["PrivateDevices=yes"] if private_devices else []),
        HARDENED,
        *([more] if more else []),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return an argument as a unit takes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != text or " " in text else text
