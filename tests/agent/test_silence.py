"""A raw value appears nowhere: not in logs, exceptions, files, sockets, metrics or topics.

The marker is the value itself, as number and as text. Every error path that can meet a value is walked with it at
debug level; then everything the device wrote or said is searched, the broker's traffic included.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.discretise import discretiser
from agent.read import Reader, Unreadable
from agent.serve import read_report
from broker.connection import Connection
from broker.log import logger
from broker.messages import Labels
from broker.process import BrokerProcess
from tests.agent.clocks import Hands
from tests.agent.peer import DEVICE, Peer, noise, policy, stream_policy, wait_until, write_config
from tests.agent.running import process, running
from tests.agent.test_cli import get

NUMBER = 8675309.125
TEXT = "jenny-8675309"
TRACES = [b"8675309", b"jenny"]


def traces(content: bytes) -> list[bytes]:
    return [trace for trace in TRACES if trace in content]


def everything_in(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path, path.read_bytes()


@contextmanager
def eavesdropper(broker: BrokerProcess) -> Iterator[list[bytes]]:
    """Everything of the cohort that goes over the broker, topics included."""
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
    """The searching itself is tested: a marker written anywhere is found."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_text(f"x={NUMBER}")
    assert [traces(content) for _, content in everything_in(tmp_path)] == [[b"8675309"]]
    assert traces(json.dumps({"label": TEXT}).encode()) == [b"8675309", b"jenny"]


def test_a_value_offered_in_every_form_appears_nowhere(broker: BrokerProcess, tmp_path: Path) -> None:
    """Good values, refused ones, a broker that goes away, a stop in between: at debug level, with metrics."""
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
                    return "values refused" in log.getvalue()[before:]

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
    assert "values refused" in log.getvalue()
    assert "hushmq_agent_stream_values_refused_total" in said.decode()
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
    """The whole process with its standard error, fed with lines good and bad in each form, then the end of input."""
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
            wait_until(lambda: "values refused" in (tmp_path / "log").read_text())
            wait_until(lambda: "source ended" in (tmp_path / "log").read_text())
            child.terminate()
            assert child.wait(5) == 0
        finally:
            child.kill()
            child.wait()
    for path, content in everything_in(tmp_path):
        assert traces(content) == [], path
    assert [content for content in heard if traces(content)] == []


def test_an_exception_in_a_stage_names_no_value(tmp_path: Path) -> None:
    """Were a stage to fail with the value in its message, the process's last words would still be silent about it."""
    config = write_config(tmp_path, source='kind = "offer"')
    code = f"""
import agent.stream
from agent.tick import Ticker
real = Ticker.elapsed
def elapsed(self):
    raise ValueError("cannot handle {TEXT} {NUMBER}")
Ticker.elapsed = elapsed
from agent.settings import Settings
from tests.agent.peer import policy
def load(self, periods):
    self.policy = policy()
    return []
Settings.load = load
"""
    with process(config, code=code, log=tmp_path / "log") as child:
        assert child.wait(20) == 1
    log = (tmp_path / "log").read_bytes()
    assert b"ValueError" in log
    assert traces(log) == []


def test_refusing_parts_raise_nothing_that_holds_the_value() -> None:
    policy_ = stream_policy()
    found = discretiser(policy_)
    assert found.states([TEXT, float("nan")]) == [None, None]
    for reader in (Reader(), Reader("json"), Reader("json", "x.y")):
        with pytest.raises(Unreadable) as caught:
            reader.read(TEXT.encode())
        assert traces(repr(caught.value).encode()) == []
        assert caught.value.__context__ is None or caught.value.__suppress_context__
    hands = Hands()
    from agent.resample import Resampler

    resampler = Resampler(hands.clock(), 100, 100)
    resampler.offer(TEXT)
    assert traces(repr(resampler).encode()) == []
    assert DEVICE not in repr(resampler)
