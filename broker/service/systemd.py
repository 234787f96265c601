"""Notifications to systemd: readiness, reload, stop, and the watchdog. Without systemd they do nothing."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping


class Systemd:
    """The notification socket of the service manager, if there is one."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog_s = int(environment.get("WATCHDOG_USEC", "0")) / 1e6 if ours else 0.0
        """The watchdog's time-out in seconds; 0 without a watchdog."""
        self._fed = 0.0

    def notify(self, message: str) -> None:
        """Send one message; do nothing when there is no service manager or it does not listen."""
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.sendto(message.encode(), address)
        except OSError:
            return

    def feed(self, *, healthy: bool) -> None:
        """Feed the watchdog if healthy, at most four times per time-out."""
        now = time.monotonic()
        if self.watchdog_s and healthy and now - self._fed >= self.watchdog_s / 4:
            self.notify("WATCHDOG=1")
            self._fed = now
