"""What systemd is told, on a socket of its kind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from broker.systemd import Systemd
from tests.agent.peer import write_config


@pytest.fixture
def manager(tmp_path: Path) -> socket.socket:
    """The manager's end of the notification socket."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    found.bind(str(tmp_path / "notify"))
    found.settimeout(15)
    return found


def test_without_systemd_nothing_is_said() -> None:
    systemd = Systemd({})
    systemd.notify("READY=1")
    assert systemd.watchdog_s == 0


def test_the_watchdog_is_fed_only_while_all_is_well(manager: socket.socket) -> None:
    systemd = Systemd({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "40000"})
    systemd.feed(healthy=False)
    systemd.feed(healthy=True)
    systemd.feed(healthy=True)
    systemd.notify("STOPPING=1")
    assert [manager.recv(99), manager.recv(99)] == [b"WATCHDOG=1", b"STOPPING=1"]
    manager.close()


def test_a_watchdog_meant_for_another_process_is_not_ours() -> None:
    assert Systemd({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}).watchdog_s == 0


@pytest.mark.parametrize(
    ("sabotage", "fed"),
    [
        ("", True),
        ("from broker.connection import Connection\nConnection.alive = property(lambda self: False)", False),
        (
            "from agent.outbox import DiskFullError, Outbox\n"
            "def commit(self, *_, **__): raise DiskFullError('database or disk is full')\nOutbox.commit = commit",
            False,
        ),
    ],
    ids=["well", "network thread dead", "outbox stuck"],
)
def test_the_daemon_says_ready_feeds_the_watchdog_and_says_stopping(
    manager: socket.socket, tmp_path: Path, sabotage: str, fed: bool
) -> None:
    """With its network thread dead or its outbox stuck the watchdog starves, and systemd restarts the agent."""
    script = f"{sabotage}\nimport sys\nfrom hushmq.__main__ import main\nsys.exit(main(sys.argv[1:]))"
    child = subprocess.Popen(
        [sys.executable, "-c", script, "agent", "run", "--config", str(write_config(tmp_path))],
        env=os.environ | {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "400000"},
        stderr=subprocess.DEVNULL,
    )
    try:
        assert manager.recv(99) == b"READY=1"
        manager.settimeout(15 if fed else 1.5)
        said: list[bytes] = []
        try:
            said = [manager.recv(99) for _ in range(10)]
        except TimeoutError:
            said = []
        assert (said == [b"WATCHDOG=1"] * 10) == fed
        child.send_signal(signal.SIGTERM)
        manager.settimeout(15)
        while manager.recv(99) != b"STOPPING=1":
            pass
        assert child.wait(5) == 0
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        manager.close()
