"""The command line of `hushmq agent`."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

from hushmq.__main__ import main
from hushmq.agent.agent_config import load
from hushmq.agent.agent_reference import PATH, document
from hushmq.agent.daemon import AgentDaemon
from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.agent.peer import Peer, noise, policy, wait_until, write_config
from tests.agent.running import process, running


def get(port: int | None, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_check_config_accepts_a_file_or_names_its_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_config(tmp_path)
    assert main(["agent", "check-config", "--config", str(path)]) == 0
    assert "good: device wearable-1 of cohort test, motion" in capsys.readouterr().out
    path.write_text(path.read_text().replace("epsilon_max = 4.0", "epsilon_max = 40"))
    assert main(["agent", "check-config", "--config", str(path)]) == 2
    assert "trust.epsilon_max: Input should be less than or equal to 20 (it is 40)" in capsys.readouterr().err
    assert not (tmp_path / "state").exists()


@pytest.mark.slow
def test_a_device_needs_neither_numpy_nor_anything_else_of_the_calibrator(tmp_path: Path) -> None:
    """Importing the agent and checking a file loads no heavy package, even if it is installed."""
    code = f"""
import sys
import hushmq.agent.agent_commands, hushmq.agent.daemon, hushmq.agent.agent_config
from hushmq.__main__ import main
assert main(["agent", "check-config", "--config", {str(write_config(tmp_path))!r}]) == 0
heavy = {{"numpy", "opendp", "sqlalchemy", "scipy", "matplotlib", "pandas"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_the_reference_is_up_to_date() -> None:
    assert (Path(__file__).parents[2] / PATH).read_text("utf-8") == document(), (
        "run: python -m hushmq.agent.agent_reference"
    )


def test_two_agents_in_one_folder_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second agent is refused, because both would use the same ticks."""
    path = write_config(tmp_path)
    with running(path):
        assert main(["agent", "run", "--config", str(path)]) == 2
        assert "another agent runs in" in capsys.readouterr().err


def test_status_and_metrics_tell_the_books_of_a_running_agent(
    nats: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_config(tmp_path, nats.port, sections="[metrics]\nport = 0")
    assert main(["agent", "status", "--config", str(path)]) == 1
    assert "no agent answers" in capsys.readouterr().err
    with Peer(nats) as peer, running(path) as agent:
        peer.push(policy())
        peer.push(noise(3))
        wait_until(lambda: peer.total() > 0)
        assert main(["agent", "status", "--config", str(path)]) == 0  # not a terminal: JSON
        report = json.loads(capsys.readouterr().out)
        stream = report["streams"]["motion"]
        assert (report["connected"], report["policy"], stream["noise"]) == (True, 1, 3)
        assert stream["sampled"] == stream["counted"] + stream["buffered"] + stream["dropped"] > 0
        code, text = get(agent.metrics_port, "/metrics")
        assert code == 200
        assert 'hushmq_agent_stream_noise{stream="motion"} 3' in text.splitlines()
        assert get(agent.metrics_port, "/other")[0] == 404


def on_a_terminal(path: Path, *more: str, **environment: str) -> str:
    """Return what `hushmq agent status` writes to a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hushmq", "agent", "status", "--config", str(path), *more]
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        subprocess.run(command, check=True, stdout=theirs, timeout=30, env=os.environ | environment)
        os.close(theirs)
        return terminal.read(65_536).decode()


def test_status_on_a_terminal_is_for_people(nats: BrokerProcess, tmp_path: Path) -> None:
    """Text with sums and colours; without colours if NO_COLOR is set; one JSON object with --json."""
    path = write_config(tmp_path, nats.port)
    with Peer(nats) as peer, running(path):
        wait_until(lambda: peer.status is not None and peer.status.online)
        assert "\x1b[31mnone yet: nothing is sampled\x1b[0m" in on_a_terminal(path)
        peer.push(policy())
        peer.push(noise(3))
        wait_until(lambda: peer.total() > 0)
        plain = on_a_terminal(path, NO_COLOR="1")
        assert "\x1b" not in plain
        assert "wearable-1 of cohort test" in plain
        assert re.search(r"ticks +[\d,]+ sampled = [\d,]+ counted \+ [\d,]+ buffered \+ 0 dropped", plain)
        assert json.loads(on_a_terminal(path, "--json"))["policy"] == 1


def test_a_metrics_port_in_use_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(write_config(tmp_path / "a", sections="[metrics]\nport = 0")) as agent:
        path = write_config(tmp_path / "b", sections=f"[metrics]\nport = {agent.metrics_port}")
        assert main(["agent", "run", "--config", str(path)]) == 2
        assert "metrics.port" in capsys.readouterr().err
        with pytest.raises(Problem, match=r"metrics\.port"):
            AgentDaemon(load(path, {}))
    with running(path):  # the failed start has left nothing open, in particular not the folder's lock
        pass


def test_settings_that_turn_out_not_to_work_at_a_reload_are_refused(
    nats: BrokerProcess, tmp_path: Path
) -> None:
    """A port in use is detected only when it is opened: the agent continues with its old configuration."""
    path, log = write_config(tmp_path, nats.port), tmp_path / "log"
    with Peer(nats) as peer, socket.create_server(("127.0.0.1", 0)) as taken, process(path, log=log) as child:
        peer.push(policy())
        peer.push(noise())
        wait_until(lambda: peer.total() > 0)
        path.write_text(f"{path.read_text()}\n[metrics]\nport = {taken.getsockname()[1]}\n")
        child.send_signal(signal.SIGHUP)
        wait_until(lambda: "configuration_refused" in log.read_text())
        before = peer.total()
        wait_until(lambda: peer.total() > before + 100)
        child.send_signal(signal.SIGTERM)
        assert child.wait(5) == 0
        wait_until(lambda: peer.status is not None and not peer.status.online and peer.balanced())


def test_sighup_reads_the_file_again_and_a_wrong_one_changes_nothing(
    nats: BrokerProcess, tmp_path: Path
) -> None:
    path, log = write_config(tmp_path, nats.port), tmp_path / "log"
    with Peer(nats) as peer, process(path, log=log) as child:
        peer.push(policy())
        peer.push(noise())
        wait_until(lambda: peer.total() > 0)
        good = path.read_text()
        path.write_text(good.replace("beat_ms = 50", "beat_ms = -1"))
        child.send_signal(signal.SIGHUP)
        wait_until(lambda: "configuration_refused" in log.read_text())
        path.write_text(good.replace("beat_ms = 50", "beat_ms = 77"))
        child.send_signal(signal.SIGHUP)
        wait_until(lambda: log.read_text().count("agent_started") == 2)
        before = peer.total()
        wait_until(lambda: peer.total() > before + 100)
        child.send_signal(signal.SIGTERM)
        assert child.wait(5) == 0
        wait_until(lambda: peer.status is not None and not peer.status.online and peer.balanced())
