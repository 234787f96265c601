"""Notifications to systemd, received on a socket like systemd's."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hushmq.broker.service.systemd import Systemd
from tests.agent.peer import write_config


@pytest.fixture
def manager(tmp_path: Path) -> socket.socket:
    """The service manager's end of the notification socket."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    found.bind(str(tmp_path / "notify"))
    found.settimeout(15)
    return found


def test_without_systemd_notifications_do_nothing() -> None:
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


@contextmanager
def watched(manager: socket.socket, config: Path, sabotage: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Run the daemon as systemd does, wait until it is ready, and terminate it at the end."""
    script = f"{sabotage}\nimport sys\nfrom hushmq.__main__ import main\nsys.exit(main(sys.argv[1:]))"
    child = subprocess.Popen(
        [sys.executable, "-c", script, "agent", "run", "--config", str(config)],
        env=os.environ | {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "400000"},
        stderr=subprocess.DEVNULL,
    )
    try:
        assert manager.recv(99) == b"READY=1"
        yield child
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


def starved(manager: socket.socket) -> bool:
    """Wait until the watchdog has not been fed for three times its time-out."""
    manager.settimeout(1.2)
    for _ in range(50):
        try:
            assert manager.recv(99) == b"WATCHDOG=1"
        except TimeoutError:
            return True
    return False


@pytest.mark.slow
def test_the_daemon_notifies_ready_feeds_the_watchdog_and_notifies_stopping(
    manager: socket.socket, tmp_path: Path
) -> None:
    with watched(manager, write_config(tmp_path)):
        assert [manager.recv(99) for _ in range(10)] == [b"WATCHDOG=1"] * 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "end",
    ["return", "raise SystemExit", "raise MemoryError", "threading.Event().wait()"],
    ids=["ended", "exited", "out of memory", "hanging"],
)
def test_the_watchdog_is_not_fed_when_the_network_thread_is_dead(
    manager: socket.socket, tmp_path: Path, end: str
) -> None:
    """Whether the thread died or hangs: the agent continues, but stops feeding the watchdog, so systemd restarts it."""
    sabotage = f"import threading\nfrom hushmq.broker.mqtt import connection\ndef run(self): {end}\n"
    sabotage += "connection.Connection._run = run\nconnection.HUNG = 0.3"
    with watched(manager, write_config(tmp_path), sabotage) as child:
        assert starved(manager)
        assert child.poll() is None


@pytest.mark.slow
def test_the_watchdog_is_not_fed_while_the_outbox_is_stuck(manager: socket.socket, tmp_path: Path) -> None:
    """While another process locks the outbox the watchdog is not fed; once it is unlocked, it is fed again."""
    with watched(manager, write_config(tmp_path)) as child:
        holder = sqlite3.connect(tmp_path / "state" / "outbox.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        assert starved(manager)
        assert child.poll() is None
        holder.execute("ROLLBACK")
        holder.close()
        manager.settimeout(15)
        assert [manager.recv(99) for _ in range(5)] == [b"WATCHDOG=1"] * 5
