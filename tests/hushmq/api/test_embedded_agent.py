"""An agent inside a program: started and stopped as often as one likes, offered values, asked how it is."""

from __future__ import annotations

import io
import socket
import threading
from pathlib import Path

import pytest

from hushmq import Agent, AgentStopped, Problem, load_agent_config
from hushmq.agent.daemon import AgentDaemon
from hushmq.broker.provision.nats import NatsServer
from hushmq.broker.service.log import logger
from tests.agent.peer import Peer, noise, policy, wait_until, write_config

SECRET = 86.75309


def settings(folder: Path, port: int = 1) -> Path:
    return write_config(folder, port, source='kind = "offer"')


def make(folder: Path, port: int = 1, log: io.StringIO | None = None) -> Agent:
    return Agent(
        load_agent_config(settings(folder, port), environment={}),
        log=logger("debug", "json", log or io.StringIO()),
    )


def test_values_offered_are_counted(nats: NatsServer, tmp_path: Path) -> None:
    """Once a policy and a noise setting are in force, what is offered becomes ticks that the calibrator counts."""
    with Peer(nats) as peer, make(tmp_path, nats.port) as agent:
        assert not agent.wait_ready(timeout=0.1)
        peer.push(policy())
        peer.push(noise())
        assert agent.wait_ready(timeout=20.0)
        agent.offer("motion", 60.0)
        wait_until(lambda: peer.total() > 50)
        wait_until(lambda: agent.report().streams["motion"].counted > 0)
        assert agent.report().connected


def test_it_stops_and_starts_again(tmp_path: Path) -> None:
    """No broker is needed for that; a second start and a second stop have no effect."""
    agent = make(tmp_path)
    for _ in range(2):
        agent.start()
        agent.start()
        assert agent.running
        assert not agent.report().connected
        agent.stop()
        agent.stop()
        assert not agent.running
    assert not [thread for thread in threading.enumerate() if thread.name == "hushmq-agent"]


def test_an_agent_that_does_not_run_takes_nothing(tmp_path: Path) -> None:
    """A value that nobody would publish is not swallowed in silence."""
    agent = make(tmp_path)
    for use in (lambda: agent.offer("motion", SECRET), agent.report, lambda: agent.wait_ready(timeout=1.0)):
        with pytest.raises(AgentStopped, match="call start"):
            use()


def test_a_failure_is_told_without_the_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends the agent is in the log by class and place; its text, which may hold a value, is nowhere."""

    def fail(_: AgentDaemon) -> None:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(AgentDaemon, "_loop", fail)
    log = io.StringIO()
    agent = make(tmp_path, log=log)
    agent.start()
    wait_until(lambda: not agent.running)
    with pytest.raises(AgentStopped, match="failed: ZeroDivisionError") as raised:
        agent.offer("motion", SECRET)
    agent.stop()
    assert "ZeroDivisionError" in log.getvalue()
    assert str(SECRET) not in log.getvalue() + str(raised.value)


def test_a_stream_without_offers_is_named(tmp_path: Path) -> None:
    """Problem says which streams take values, TypeError what a value is; neither repeats the value."""
    with make(tmp_path) as agent:
        with pytest.raises(Problem, match="takes no offered values; those that do: motion"):
            agent.offer("door", SECRET)
        with pytest.raises(TypeError, match="not list"):
            agent.offer("motion", [SECRET])  # type: ignore[arg-type]


def test_a_folder_has_one_agent(tmp_path: Path) -> None:
    """Two would perturb the same ticks: the second is refused, and the first goes on."""
    with make(tmp_path) as agent:
        with pytest.raises(Problem, match="another agent"):
            make(tmp_path).start()
        assert agent.running


def test_a_configuration_that_is_wrong_is_named(tmp_path: Path) -> None:
    """One line, without the words of a command line."""
    with pytest.raises(Problem, match=r"^.*none\.toml: No such file or directory$"):
        load_agent_config(tmp_path / "none.toml")
    with pytest.raises(Problem, match=r"^HUSHMQ_AGENT__DEVICE: device: "):
        load_agent_config(settings(tmp_path), environment={"HUSHMQ_AGENT__DEVICE": "a b"})


def test_systemd_hears_of_the_program_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent neither says that the service is ready or stopping, nor feeds the watchdog of a program that hangs."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "1000")
        with make(tmp_path) as agent:
            agent.report()
        with pytest.raises(BlockingIOError):
            manager.recv(64)
