"""The demo as a user runs it: real processes, a real broker, and a verdict that can be no."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from hushmq.__main__ import main
from hushmq.broker.provision.access_rights import Identity, ServerTls
from hushmq.broker.provision.authority import Authority
from hushmq.broker.provision.broker_process import BrokerProcess, free_port
from hushmq.broker.provision.mosquitto import MosquittoServer, executable, password_line
from hushmq.broker.provision.nats import NatsServer
from hushmq.demo.demo_broker import DemoBroker
from hushmq.demo.demo_plan import make_plan, write_calibrator
from tests.brokers import OpenSite

PATIENCE = 120.0


@contextmanager
def demo(*options: str, folder: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The demo in a subprocess, with its temporary folder below `folder`; killed if a test leaves it running."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hushmq", "demo", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(folder)} | environment,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def children(pid: int) -> dict[int, str]:
    """The child processes of a process and their command lines."""
    found = {}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            try:
                found[int(child)] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
            except FileNotFoundError:
                continue
    return found


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_the_loop_closes_though_an_agent_is_killed(tmp_path: Path) -> None:
    """With an agent killed by -9 in the middle, every tick is still accounted for and none is perturbed twice."""
    with demo("--seconds", "110", "--until-closed", "--json", folder=tmp_path) as process:

        def agents() -> list[int]:
            return [
                pid for pid, command in children(process.pid).items() if "wearable-3/agent.toml" in command
            ]

        def has_published() -> bool:
            return any(path.stat().st_size > 0 for path in tmp_path.glob("*/wearable-3/outbox*"))

        wait_for(lambda: bool(agents()) and has_published())
        time.sleep(1.0)  # not a condition: the kill comes at an arbitrary moment of a working agent
        os.kill(agents()[0], signal.SIGKILL)
        out, err = process.communicate(timeout=PATIENCE)
    assert out, err
    report = json.loads(out)
    assert (process.returncode, report["closed"]) == (0, True), failed(report, err)
    assert report["restarts"] == 1
    assert report["sampled"] > 0
    assert report["ledger"]["public"]["loss"] <= report["ledger"]["public"]["budget"]
    assert not list(tmp_path.iterdir()), "the temporary folder is gone"


@pytest.mark.slow
def test_interrupt_stops_everything(tmp_path: Path) -> None:
    """Ctrl-C ends the demo within two seconds; no process and no folder is left."""
    with demo("--agents", "4", folder=tmp_path) as process:
        wait_for(lambda: len(children(process.pid)) >= 6)
        offspring = list(children(process.pid))
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        process.communicate(timeout=PATIENCE)
        took = time.monotonic() - began
    assert process.returncode == 130
    assert not [pid for pid in offspring if alive(pid)]
    assert not list(tmp_path.iterdir())
    # Two seconds on an idle machine; the suite shares two cores with other tests.
    assert took < 6.0


def test_killed_demo_takes_its_processes_along(tmp_path: Path) -> None:
    """Even kill -9 of the demo leaves no process behind."""
    with demo("--agents", "3", folder=tmp_path) as process:
        wait_for(lambda: len(children(process.pid)) >= 5)
        offspring = list(children(process.pid))
        process.kill()
        process.communicate()
        wait_for(lambda: not [pid for pid in offspring if alive(pid)])


@pytest.fixture
def open_mosquitto(mosquitto: MosquittoServer, tmp_path: Path) -> Iterator[int]:
    """A Mosquitto as one has it at home: anybody may do anything, and who gives a name has to prove it.

    `mosquitto` says whether there is one at all.
    """
    mosquitto.stop()
    port = free_port("127.0.0.1")
    (tmp_path / "passwords").write_text(password_line("me", "secret") + "\n")
    config = tmp_path / "open.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\npassword_file {tmp_path / 'passwords'}\nuser root\n"
    )
    process = subprocess.Popen([str(executable()), "-c", str(config)], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def nats_with_tls(tmp_path: Path) -> Iterator[NatsServer]:
    """A NATS with an authority of its own and one identity, "me", that may do everything."""
    authority = Authority.create(tmp_path / "authority")
    authority.issue_server(["127.0.0.1"])
    site = OpenSite("home", (Identity("ops", "me", "secret"),))
    with NatsServer(
        site, tmp_path / "nats", tls=ServerTls(*authority.server, authority.certificate)
    ) as server:
        yield server


def retained(port: int) -> list[str]:
    """The topics with a retained message, as a plain subscriber finds them."""
    found: list[str] = []
    done = threading.Event()
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.on_message = lambda _c, _d, message: (
        done.set() if message.topic == "end" else found.append(message.topic) if message.retain else None
    )
    client.on_subscribe = lambda *_: client.publish("end", b"x", qos=1)
    client.connect("127.0.0.1", port)
    client.subscribe("#", 1)
    client.loop_start()
    assert done.wait(10)
    client.disconnect()
    client.loop_stop()
    return found


def test_runs_on_a_broker_of_ones_own(open_mosquitto: int, tmp_path: Path) -> None:
    """On the user's Mosquitto the loop closes as well, and no retained message is left there."""
    folder = tmp_path / "demo"
    folder.mkdir()
    closes("--broker", f"mqtt://127.0.0.1:{open_mosquitto}", folder=folder)
    assert retained(open_mosquitto) == []


def failed(report: dict[str, Any], err: str) -> str:
    """What the verdict objects to, and what else was said."""
    return "; ".join(f"{one['name']}: {one['detail']}" for one in report["checks"] if not one["passed"]) + err


def closes(*options: str, folder: Path, **environment: str) -> None:
    """Play with four wearables until the loop has closed, and see that the verdict says so."""
    common = ("--agents", "4", "--seconds", "110", "--until-closed", "--json")
    with demo(*common, *options, folder=folder, **environment) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert out, err
    report = json.loads(out)
    assert (process.returncode, report["closed"]) == (0, True), failed(report, err)


@pytest.mark.slow
def test_runs_on_a_nats_of_ones_own_over_tls(nats_with_tls: NatsServer, tmp_path: Path) -> None:
    """One shared identity, its password in the environment, a private authority: the loop closes."""
    folder = tmp_path / "demo"
    folder.mkdir()
    assert nats_with_tls.tls is not None
    address = ("--broker", f"mqtts://me@127.0.0.1:{nats_with_tls.port}", "--ca", str(nats_with_tls.tls.ca))
    known = {"HUSHMQ_BROKER_PASSWORD": "secret"}
    closes(*address, folder=folder, **known)


def test_a_broker_that_refuses(broker: BrokerProcess) -> None:
    """No password: the broker's refusal is reported in one line."""
    code, out, err = run("--broker", f"mqtt://127.0.0.1:{broker.port}")
    assert (code, out) == (2, "")
    assert err == (
        f"hushmq: the broker at mqtt://127.0.0.1:{broker.port} cannot be used: "
        f"mqtt://127.0.0.1:{broker.port}: the broker refuses: not authorized\n"
    )


def test_a_broker_that_swallows_what_it_forbids(mosquitto: MosquittoServer) -> None:
    """Mosquitto acknowledges a forbidden policy: that it is not delivered is reported in one line."""
    known = {"HUSHMQ_BROKER_PASSWORD": "ops-secret"}
    code, out, err = run("--broker", f"mqtt://ops@127.0.0.1:{mosquitto.port}", **known)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "/policy does not come back" in err


def test_nowhere_to_write(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without any place for temporary files one line says so, and what to set; nothing is started."""
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    assert main(["demo"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert (
        said.err == "hushmq: no temporary folder can be made (No such file or directory): set TMPDIR to one\n"
    )


def run(*options: str, **environment: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "hushmq", "demo", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | environment,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_port_in_use() -> None:
    """A port in use is reported in one line."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = run("--port", str(port))
    assert code == 2
    assert err == f"hushmq: port {port} on 127.0.0.1 is in use: choose another one\n"


@pytest.mark.slow
def test_broker_that_is_not_there() -> None:
    """A broker that refuses the connection is reported in one line."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        code, _, err = run("--broker", f"mqtt://127.0.0.1:{port}")
    assert code == 2
    assert err.count("\n") == 1
    assert f"mqtt://127.0.0.1:{port}" in err
    assert "refused" in err.lower()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seconds", "1"], "--seconds: 1 is out of range: 5 to 3600"),
        (["--seconds", "nan"], "--seconds: nan is out of range: 5 to 3600"),
        (["--agents", "2"], "--agents: 2 is out of range: 3 to 64"),
        (["--agents", "many"], "argument --agents: invalid int value: 'many' (see hushmq demo --help)"),
        (["--epsilon", "0"], "--epsilon: 0 is out of range: 0.5 to 10"),
        (["--colour"], "unrecognized arguments: --colour (see hushmq demo --help)"),
        (["--port", "70000"], "--port: 70000 is out of range: 1 to 65535"),
        (
            ["--broker", "mqtt://me:secret@host"],
            "--broker: give the password in HUSHMQ_BROKER_PASSWORD, not in the address",
        ),
        (
            ["--broker", "mqtt://host", "--port", "1883"],
            "--port belongs to the demo's own broker: leave it out with --broker",
        ),
        (
            ["--broker", "nas"],
            "broker address 'nas' is not valid; write mqtt://host[:port], or mqtts://host[:port] for TLS; "
            "ws:// or wss:// for WebSocket",
        ),
        (["--ca", "ca.pem"], "--ca belongs to a broker of your own: give --broker mqtts://… as well"),
        (["--broker", "mqtts://h", "--ca", "/none.pem"], "TLS: ca /none.pem: No such file or directory"),
        (["--picture", "/none/demo.svg"], "--picture: /none/demo.svg: its folder cannot be written"),
        (["--picture", "/"], "--picture: / is a folder: name a file in it"),
    ],
)
def test_bad_options(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says what is wrong and what would be right; exit code 2."""
    assert main(["demo", *options]) == 2
    assert capsys.readouterr().err == f"hushmq: {message}\n"


def test_a_password_for_another_host_needs_tls_or_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused before anything starts; what is accepted on the command line is in every settings file."""
    monkeypatch.setenv("HUSHMQ_BROKER_PASSWORD", "hidden")
    assert main(["demo", "--broker", "mqtt://me@nas"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("hushmq: --broker: mqtt://nas:1883 would send the password")
    assert told.endswith("--password-in-clear-text\n")
    assert "hidden" not in told
    plan = make_plan(agents=3, epsilon=4.0, now=time.time())
    args = argparse.Namespace(broker="mqtt://me@nas", ca=None, password_in_clear_text=True)
    address = DemoBroker.open(args, plan, tmp_path).address
    assert "password_in_clear_text = true" in write_calibrator(plan, address, tmp_path).read_text()
