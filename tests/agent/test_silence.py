"""A raw value appears nowhere: not in logs, exceptions, files, sockets, metrics or topics.

The marker is the value itself, as number and as text. The tests run every error path that can hold a value with it, at
debug level; then they search everything that the device wrote or published.
"""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hushmq.agent.discretise import discretiser
from hushmq.agent.sources.parse_value import Reader, Unreadable
from hushmq.agent.status_socket import read_report
from hushmq.broker.contract.policy_message import DeviceWindow, Labels
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.service.log import logger
from tests.agent.clocks import Hands
from tests.agent.peer import DEVICE, Peer, noise, policy, sign, stream_policy, wait_until, write_config
from tests.agent.running import process, running
from tests.agent.test_agent_commands import get
from tests.broker.plain import Plain

NUMBER = 86753098675309.125
TEXT = "jenny-86753098675309"
TRACES = [b"86753098675309", b"jenny"]
"""The number has more digits than a tick: no tick can contain it by chance."""


def traces(content: bytes) -> list[bytes]:
    return [trace for trace in TRACES if trace in content]


def everything_in(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path, path.read_bytes()


@contextmanager
def eavesdropper(broker: BrokerProcess) -> Iterator[list[bytes]]:
    """Record every message of the cohort, including its topic."""
    heard: list[bytes] = []
    connection = Connection(
        endpoints=[broker.endpoint("ops")],
        client_id="eavesdropper",
        subscriptions=["hush/1/test/#"],
        on_message=lambda topic, payload, _: heard.append(topic.encode() + b" " + payload),
        log=logger("error", "json", io.StringIO()),
    )
    connection.start()
    assert connection.wait_connected(10)
    yield heard
    connection.stop()


def test_the_search_would_find_a_marker(tmp_path: Path) -> None:
    """The search finds a marker written anywhere."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_text(f"x={NUMBER}")
    assert [traces(content) for _, content in everything_in(tmp_path)] == [[b"86753098675309"]]
    assert traces(json.dumps({"label": TEXT}).encode()) == [b"86753098675309", b"jenny"]


def test_a_value_offered_in_every_form_appears_nowhere(broker: BrokerProcess, tmp_path: Path) -> None:
    """Valid and refused values, a broker that disappears, a stop: at debug level, with metrics, no value appears."""
    log = io.StringIO()
    config = write_config(tmp_path, broker.port, source='kind = "offer"', sections="[metrics]\nport = 0")
    said = b""
    with eavesdropper(broker) as heard, Peer(broker) as peer:
        peer.push(policy())
        peer.push(noise())
        for labels in (False, True):
            if labels:
                peer.push(policy(2, discretiser=Labels(aliases={"other": "low"})))
                peer.push(noise(2, policy=2))
            with running(config, log=log) as agent:
                wait_until(lambda: peer.status is not None and peer.status.online)
                target = peer.total() + 50

                def feed(target: int = target, labels: bool = labels) -> bool:
                    for value in (NUMBER, TEXT, -NUMBER, float("inf"), True, int(NUMBER)):
                        agent.offer(value)
                    agent.offer("high" if labels else NUMBER)
                    return peer.total() > target

                wait_until(feed)
                before = len(log.getvalue())

                def refused(before: int = before) -> bool:
                    agent.offer(TEXT)
                    return "values_refused" in log.getvalue()[before:]

                wait_until(refused)
                broker.kill()
                for _ in range(50):
                    feed()
                broker.start()
                enough = peer.total() + 50
                wait_until(lambda enough=enough: feed(enough))
                said += get(agent.metrics_port, "/metrics")[1].encode()
                said += json.dumps(read_report(tmp_path / "state")).encode()
                assert traces(repr(agent).encode()) == []
        wait_until(lambda: peer.status is not None and not peer.status.online and peer.balanced())
    assert "values_refused" in log.getvalue()
    assert '"values_refused": ' in said.decode()
    for content in (log.getvalue().encode(), said, *heard):
        assert traces(content) == []
    for path, content in everything_in(tmp_path):
        assert traces(content) == [], path


LINES = [
    f"{NUMBER}",
    TEXT,
    '{"x":',
    f'{{"x":{NUMBER}}}',
    f'{{"y":"{TEXT}"}}',
    f'["{TEXT}"]',
    "9" * 70_000 + TEXT,
    "",
]


@pytest.mark.parametrize("form", ["number", "label", "json"])
def test_what_is_read_from_a_pipe_appears_in_no_line_of_the_log(
    nats: BrokerProcess, tmp_path: Path, form: str
) -> None:
    """The standard error of a process fed with valid and invalid lines in each form, and then the end of input."""
    source = f'kind = "stdin"\nform = "{form}"' + ('\njson_path = "x"' if form == "json" else "")
    config = write_config(tmp_path, nats.port, source=source, sections='[log]\nlevel = "debug"')
    with eavesdropper(nats) as heard, Peer(nats) as peer:
        peer.push(policy())
        peer.push(noise())
        script = "import sys\nfrom hushmq.__main__ import main\nsys.exit(main(sys.argv[1:]))"
        with (tmp_path / "log").open("wb") as output:
            child = subprocess.Popen(
                [sys.executable, "-c", script, "agent", "run", "--config", str(config)],
                stdin=subprocess.PIPE,
                stderr=output,
            )
        try:
            assert child.stdin is not None
            wait_until(lambda: peer.status is not None and peer.status.online and peer.status.policy == 1)
            child.stdin.write("\n".join([*LINES, ""]).encode())
            child.stdin.close()
            wait_until(lambda: "values_refused" in (tmp_path / "log").read_text())
            wait_until(lambda: "standard input has ended" in (tmp_path / "log").read_text())
            child.terminate()
            assert child.wait(5) == 0
        finally:
            child.kill()
            child.wait()
    for path, content in everything_in(tmp_path):
        assert traces(content) == [], path
    assert [content for content in heard if traces(content)] == []


def pump(kind: str, tmp_path: Path, gateway: BrokerProcess | None) -> tuple[str, Callable[[bytes], object]]:
    """Return the configuration of a source, and a function that sends it a line."""
    match kind:
        case "file":
            (tmp_path / "outside").mkdir()
            values = tmp_path / "outside" / "values"

            def append(line: bytes) -> None:
                with values.open("ab") as file:
                    file.write(line + b"\n")

            return f'kind = "file"\nfile = "{values}"', append
        case "serial":
            ours, theirs = pty.openpty()
            tty.setraw(theirs)
            name = os.ttyname(theirs)
            return f'kind = "serial"\nport = "{name}"', lambda line: os.write(ours, line + b"\n")
        case _:
            assert gateway is not None
            password = tmp_path / "gateway-password"
            password.touch(mode=0o600)
            password.write_text("home-secret")
            plain = Plain(gateway.endpoint("home"))
            plain.__enter__()
            source = (
                f'kind = "mqtt"\nurl = "{gateway.endpoint("home").url}"\ntopic = "home/#"\nusername = "home"'
            )
            return f'{source}\npassword_file = "{password}"', lambda line: plain.publish("home/x", line)


@pytest.mark.parametrize("kind", ["file", "serial", "mqtt"])
def test_what_comes_from_a_file_a_port_or_a_topic_appears_nowhere(
    nats: BrokerProcess, gateway: BrokerProcess, tmp_path: Path, kind: str
) -> None:
    """Valid and invalid lines, at debug level; all files are searched while the agent runs and after it was killed."""
    source, say = pump(kind, tmp_path, gateway)
    source += '\nform = "json"\njson_path = "x"'
    config = write_config(
        tmp_path / "device",
        nats.port,
        source=source,
        sections='[log]\nlevel = "debug"\n[metrics]\nport = 0',
    )
    log, folder = tmp_path / "device" / "log", tmp_path / "device"
    with eavesdropper(nats) as heard, Peer(nats) as peer:
        peer.push(policy())
        peer.push(noise())
        with process(config, log=log) as child:
            wait_until(lambda: peer.status is not None and peer.status.policy == 1 and peer.status.online)

            def refused() -> bool:
                for line in LINES:
                    say(line.encode()[:4000])
                report = read_report(folder / "state")
                return (
                    bool(report and report["streams"]["motion"]["values_refused"] > 5) and peer.total() > 50
                )

            wait_until(refused)
            wait_until(lambda: b"values_refused" in log.read_bytes())
            assert (folder / "state" / "outbox.db-wal").stat().st_size > 0
            said = json.dumps(read_report(folder / "state")).encode()
            for path, content in everything_in(folder):
                assert traces(content) == [], path
            child.kill()
    for content in (said, *heard):
        assert traces(content) == []
    for path, content in everything_in(folder):
        assert traces(content) == [], path


STAGES = [
    ("hushmq.agent.sources.tick", "Ticker.elapsed"),
    ("hushmq.agent.sources.line_source", "ReplayedFile.take"),
    ("hushmq.agent.sources.parse_value", "Reader.read"),
    ("hushmq.agent.discretise", "BinsDiscretiser.states"),
    ("hushmq.agent.watch.stream_watch", "StreamWatch.compare"),
    ("hushmq.pufferfish.inference.theta_test", "ThetaTest.add"),
    ("hushmq.agent.perturb", "Mechanism.batches"),
    ("hushmq.agent.device_windows", "WindowCounter.add"),
    ("hushmq.agent.stream", "Stream.beat"),
    ("hushmq.agent.stream", "Stream.newly_refused"),
    ("hushmq.agent.storage.outbox", "Outbox.commit"),
    ("hushmq.agent.publish", "Publisher.pump"),
    ("hushmq.broker.service.systemd", "Systemd.feed"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "path"), STAGES, ids=[path for _, path in STAGES])
def test_a_stage_that_fails_names_no_value(tmp_path: Path, module: str, path: str) -> None:
    """An exception with the value in its message, arguments and locals is logged without the value."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "values").write_text(f"{NUMBER}\n" * 10_000)
    source = f'kind = "file"\nfile = "{tmp_path}/outside/values"\nreplay = true'
    config = write_config(tmp_path / "device", source=source, sections='[log]\nlevel = "debug"')
    settings = tmp_path / "device" / "state" / "settings"
    settings.mkdir(parents=True)
    windows = {"hour": DeviceWindow(ticks=100, scale=20.0)}
    (settings / "policy.json").write_bytes(sign(policy(device_windows=windows)))
    (settings / "noise-motion.json").write_bytes(sign(noise(epsilon=1.0)))
    owner, name = path.split(".")
    code = f"""
from {module} import {owner}
def failing(self, *arguments, **named):
    value, text = {NUMBER}, "{TEXT}"
    raise RuntimeError("cannot handle", text, value, arguments, named)
{owner}.{name} = failing
"""
    log = tmp_path / "device" / "log"
    with process(config, code=code, log=log) as child:
        assert child.wait(20) == 1
    assert b"agent_failed" in log.read_bytes()
    assert b"RuntimeError" in log.read_bytes()
    for file, content in everything_in(tmp_path / "device"):
        assert traces(content) == [], file


def test_a_thread_of_a_source_that_fails_names_no_value(nats: BrokerProcess, tmp_path: Path) -> None:
    """Exceptions in the source's thread, in callbacks and in destructors are logged without the value, too."""
    (tmp_path / "outside").mkdir()
    values = tmp_path / "outside" / "values"
    source = f'kind = "file"\nfile = "{values}"'
    config = write_config(tmp_path / "device", nats.port, source=source, sections='[log]\nlevel = "debug"')
    code = f"""
from hushmq.agent.sources.line_source import LineSource
from hushmq.agent.daemon import AgentDaemon
class Dying:
    def __del__(self): raise RuntimeError("{TEXT}", {NUMBER})
def offer(self, line):
    Dying()
    raise OSError(5, "{TEXT}", "{NUMBER}")
LineSource._offer = offer
"""
    log = tmp_path / "device" / "log"
    with Peer(nats) as peer:
        peer.push(policy())
        peer.push(noise())
        with process(config, code=code, log=log) as child:
            wait_until(lambda: peer.status is not None and peer.status.policy == 1 and peer.status.online)
            values.write_text(f"{NUMBER}\n")
            wait_until(lambda: b"input/output error" in log.read_bytes())
            wait_until(lambda: b"agent_failed" in log.read_bytes())
            limits = Path(f"/proc/{child.pid}/limits").read_text()
            assert re.search(r"Max core file size +0 ", limits)
    assert traces(log.read_bytes()) == []


def test_refusing_parts_raise_nothing_that_holds_the_value() -> None:
    policy_ = stream_policy()
    found = discretiser(policy_)
    assert found.states([TEXT, float("nan")]) == [0, 0]
    for reader in (Reader(), Reader("json"), Reader("json", "x.y")):
        with pytest.raises(Unreadable) as caught:
            reader.read(TEXT.encode())
        assert traces(repr(caught.value).encode()) == []
        assert caught.value.__context__ is None or caught.value.__suppress_context__
    hands = Hands()
    from hushmq.agent.sources.resample import Resampler

    resampler = Resampler(hands.clock(), 100)
    resampler.offer(TEXT)
    assert traces(repr(resampler).encode()) == []
    assert DEVICE not in repr(resampler)
