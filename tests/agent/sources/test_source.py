"""Every type of source in a running agent: its values reach the calibrator, and the agent survives its end."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

import pytest

from hushmq.agent.sources.source import NoSource, OfferedSource, SimulatedSource, open_source
from hushmq.agent.sources.source_config import File, Offered, Simulate
from hushmq.broker.contract.policy_message import Assumption, Audiences, Labels
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.service.log import logger
from tests.agent.clocks import Hands
from tests.agent.peer import NARROW, Peer, noise, policy, wait_until, write_config
from tests.agent.running import running
from tests.agent.test_faults import balanced_at_the_end, more_counted, report
from tests.broker.plain import Plain

QUIET = logger("error", "json", io.StringIO())
ENOUGH = 600
"""Ticks after which the noisy mean is on the true side of one half, except with probability 10⁻⁷."""


@contextmanager
def settled(server: BrokerProcess) -> Iterator[Peer]:
    """A peer that has pushed a policy with noise small enough to recognise a constant state."""
    with Peer(server) as peer:
        peer.push(
            policy(theta=Assumption(start=NARROW, floor=NARROW), epsilon=Audiences(operator=4.0, public=1.0))
        )
        peer.push(noise(theta=NARROW, epsilon=4.0))
        yield peer


def mostly(peer: Peer) -> int:
    """Return the state of the last ticks, estimated from their noisy states."""
    counted = peer.counted["motion"]
    return int(fmean(counted[tick] for tick in sorted(counted)[-ENOUGH:]) > 0.5)


@contextmanager
def feeding(feed: Callable[[], object]) -> Iterator[None]:
    """Call `feed` repeatedly on a thread."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.01):
            with contextlib.suppress(OSError):
                feed()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def follows(peer: Peer, say: Callable[[float], object]) -> None:
    """Send 60 for a while, then 90: the calibrator sees low, then high."""
    for value, state in ((60.0, 0), (90.0, 1)):
        with feeding(lambda value=value: say(value)):  # type: ignore[misc]
            time.sleep(0.3)  # so that the value before has been sampled for the last time
            more_counted(peer, ENOUGH)
            assert mostly(peer) == state


def test_offered_values(nats: BrokerProcess, tmp_path: Path) -> None:
    with settled(nats) as peer:
        with running(write_config(tmp_path, nats.port, source='kind = "offer"')) as agent:
            follows(peer, agent.offer)
            with pytest.raises(TypeError, match="not list"):
                agent.offer([90.0])  # type: ignore[arg-type]
            with pytest.raises(Exception, match="those that do: motion"):
                agent.offer(1.0, "sound")
        balanced_at_the_end(peer)


def test_a_followed_file_through_rotation(nats: BrokerProcess, tmp_path: Path) -> None:
    """A file that is renamed and created again, as by logrotate, is followed."""
    values = tmp_path / "values"

    def say(value: float) -> None:
        with values.open("a") as file:
            file.write(f"{value}\n")

    source = f'kind = "file"\nfile = "{values}"'
    with settled(nats) as peer:
        with running(write_config(tmp_path, nats.port, source=source)):
            follows(peer, say)
            values.rename(tmp_path / "values.1")
            follows(peer, say)
        balanced_at_the_end(peer)


@pytest.mark.parametrize("repeat", [False, True])
def test_a_recording(nats: BrokerProcess, tmp_path: Path, repeat: bool) -> None:
    """Each line is one tick; afterwards the recording repeats, or the stand-in is published and the report says why."""
    (tmp_path / "values").write_text("90\n" * ENOUGH)
    source = f'kind = "file"\nfile = "{tmp_path}/values"\nreplay = true\nrepeat = {str(repeat).lower()}'
    config = write_config(tmp_path, nats.port, source=source)
    with settled(nats) as peer:
        with running(config):
            if repeat:
                more_counted(peer, 2 * ENOUGH)
            else:
                wait_until(lambda: report(config)["streams"]["motion"].get("source_trouble"))
                wait_until(lambda: peer.total() > 4 * ENOUGH)
                counted = peer.counted["motion"]
                assert fmean(counted[tick] for tick in sorted(counted)[:ENOUGH]) > 0.5
            assert mostly(peer) == int(repeat)
        balanced_at_the_end(peer)


FORMS = [
    ("number", "", "{}\n"),
    ("label", "", "{}\n"),
    ("json", 'json_path = "sensor.bpm"', '{{"sensor": {{"bpm": {}}}}}\n'),
]


@pytest.mark.parametrize(("form", "path", "line"), FORMS, ids=[form for form, _, _ in FORMS])
def test_standard_input(nats: BrokerProcess, tmp_path: Path, form: str, path: str, line: str) -> None:
    """Numbers, labels or JSON are read from a pipe; after its end the last value is held, and the report says why."""
    source = f'kind = "stdin"\nform = "{form}"\n{path}'
    config = write_config(tmp_path, nats.port, source=source)
    words = {60.0: "calm", 90.0: "racing"}
    with Peer(nats) as peer:
        changes = (
            {"discretiser": Labels(aliases={"calm": "low", "racing": "high"})} if form == "label" else {}
        )
        small = Assumption(start=NARROW, floor=NARROW)
        peer.push(policy(theta=small, epsilon=Audiences(operator=4.0, public=1.0), **changes))
        peer.push(noise(theta=NARROW, epsilon=4.0))
        child = subprocess.Popen(
            [sys.executable, "-m", "hushmq", "agent", "run", "--config", str(config)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert child.stdin is not None
            pipe = child.stdin

            def say(value: float) -> None:
                pipe.write(line.format(words[value] if form == "label" else value).encode())
                pipe.flush()

            follows(peer, say)
            pipe.close()
            wait_until(lambda: report(config)["streams"]["motion"].get("source_trouble"))
            assert report(config)["streams"]["motion"]["source_trouble"] == "standard input has ended"
            more_counted(peer, 2 * ENOUGH)
            assert mostly(peer) == 1
            assert child.poll() is None
            child.terminate()
            assert child.wait(5) == 0
        finally:
            child.kill()
            child.wait()
        balanced_at_the_end(peer)


def trouble(config: Path) -> str | None:
    found: str | None = report(config)["streams"]["motion"].get("source_trouble")
    return found


def test_a_serial_port_unplugged_and_plugged_in_again(nats: BrokerProcess, tmp_path: Path) -> None:
    """While the port is absent its last value is held, and the report says why; it is reopened when it is back."""
    link, ours = tmp_path / "ttyUSB0", -1

    def plug() -> int:
        near, far = pty.openpty()
        link.unlink(missing_ok=True)
        link.symlink_to(os.ttyname(far))
        os.close(far)
        return near

    def say(value: float) -> None:
        os.write(ours, b"%f\r\n" % value)

    source = f'kind = "serial"\nport = "{link}"\nbaud = 115200'
    config = write_config(tmp_path, nats.port, source=source)
    ours = plug()
    with settled(nats) as peer:
        with running(config):
            follows(peer, say)
            link.unlink()
            os.close(ours)
            wait_until(lambda: trouble(config))
            assert report(config)["connected"]
            sampled = report(config)["streams"]["motion"]["sampled"]
            ours = plug()
            follows(peer, say)
            wait_until(lambda: trouble(config) is None)
            assert report(config)["streams"]["motion"]["sampled"] > sampled
        balanced_at_the_end(peer)
    os.close(ours)


def test_a_local_broker_that_goes_away_and_comes_back(
    nats: BrokerProcess, gateway: BrokerProcess, tmp_path: Path
) -> None:
    """Meanwhile the last value is held, and the report says why; batches still reach the other broker."""
    password = tmp_path / "gateway-password"
    password.touch(mode=0o600)
    password.write_text("home-secret\n")
    source = f"""kind = "mqtt"
url = "mqtt://127.0.0.1:{gateway.port}"
topic = "zigbee2mqtt/+"
form = "json"
json_path = "bpm"
username = "home"
password_file = "{password}"
"""
    config = write_config(tmp_path, nats.port, source=source)

    def saying(plain: Plain, value: float) -> None:
        plain.publish("zigbee2mqtt/band", b'{"battery":97,"bpm":%f,"linkquality":120}' % value)

    with settled(nats) as peer:
        with running(config):
            wait_until(lambda: trouble(config) is None and report(config).get("connected"))
            with Plain(gateway.endpoint("home")) as plain:
                follows(peer, lambda value: saying(plain, value))
            gateway.kill()
            wait_until(lambda: trouble(config))
            assert f"mqtt://127.0.0.1:{gateway.port}" in (trouble(config) or "")
            assert report(config)["connected"]
            gateway.start()
            wait_until(lambda: trouble(config) is None)
            with Plain(gateway.endpoint("home")) as plain:
                follows(peer, lambda value: saying(plain, value))
        balanced_at_the_end(peer)


def test_a_chain_that_began_too_long_ago_gives_no_values_and_reports_it() -> None:
    """Every past tick is simulated, which beyond a limit would block the device: such a source gives no values."""
    section = Simulate(kind="simulate", q=0.5, r=0.5, seed=1, start_tick=0)
    source = SimulatedSource(section)
    assert source.take(10**9, 10**9 + 1) == [None, None]
    assert "ticks ago" in str(source.trouble)
    fresh = SimulatedSource(section)
    assert None not in fresh.take(5, 9)
    assert fresh.trouble is None


def test_a_source_that_cannot_be_opened_gives_no_values_and_reports_it(tmp_path: Path) -> None:
    """A recording is deleted after the configuration was checked: the other streams continue."""
    section = File(kind="file", file=tmp_path / "absent", replay=True)
    source = open_source(section, name="x", clock=Hands().clock(), period_ms=100, log=QUIET)
    assert isinstance(source, NoSource)
    assert source.take(1, 3) == [None] * 3
    assert "No such file" in str(source.trouble)
    source.stop()
    offered = open_source(Offered(kind="offer"), name="x", clock=Hands().clock(), period_ms=100, log=QUIET)
    assert isinstance(offered, OfferedSource)
