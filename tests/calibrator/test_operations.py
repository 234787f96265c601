"""Running it: reload, readiness, watchdog, metrics, health, and an old backup, all with the real process."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from hushmq.broker.provision.broker_process import BrokerProcess, free_port
from hushmq.calibrator import calibrator_reference as reference
from tests.calibrator.running import Client, process, write_config
from tests.calibrator.site import STREAM, TOPICS, policy, signed, wait_until
from tests.calibrator.test_daemon import EVERYTHING, QUICK, begun_window, send, tick


def fetch(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:  # our own
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def test_metrics_and_health(nats: BrokerProcess, tmp_path: Path) -> None:
    """Healthy when connected; counters rise; without a broker the health is 503 and says why; unknown paths 404."""
    port = free_port("127.0.0.1")
    config = write_config(tmp_path, nats, sections=f"[metrics]\nport = {port}")
    with Client(nats, "ops", EVERYTHING) as ops, process(config):
        wait_until(lambda: fetch(port, "/health")[0] == 200)
        ops.say(TOPICS.policy, signed(policy(**QUICK)), retain=True)
        ops.wait_for_setting()
        send(nats, "wearable-1", begun_window())
        wait_until(lambda: f'ledger_entries{{stream="{STREAM}"}} 1' in fetch(port, "/metrics")[1])
        text = fetch(port, "/metrics")[1]
        assert "hushmq_calibrator_ticks_counted_total 10" in text
        assert 'hushmq_calibrator_loss{audience="public",stream="motion"}' in text
        assert fetch(port, "/other")[0] == 404
        nats.kill()
        wait_until(lambda: fetch(port, "/health")[0] == 503)
        assert json.loads(fetch(port, "/health")[1])["wrong"] == ["not connected to the broker"]


def test_hang_up_reads_the_settings_again(nats: BrokerProcess, tmp_path: Path) -> None:
    """SIGHUP: wrong settings change nothing and are named; right ones are followed, in the same process."""
    one, two = free_port("127.0.0.1"), free_port("127.0.0.1")
    config = write_config(tmp_path, nats, sections=f"[metrics]\nport = {one}")
    with process(config) as child:
        wait_until(lambda: fetch(one, "/health")[0] == 200)
        good = config.read_text()
        config.write_text(good.replace("grace_s = 0.2", "grace_s = -1"))
        child.send_signal(signal.SIGHUP)
        wait_until(lambda: "settings_refused" in (tmp_path / "log").read_text())
        assert "grace_s" in (tmp_path / "log").read_text()
        assert fetch(one, "/health")[0] == 200
        config.write_text(good.replace(f"port = {one}", f"port = {two}"))
        child.send_signal(signal.SIGHUP)
        wait_until(lambda: fetch(two, "/health")[0] == 200)
        assert fetch(one, "/health")[0] == 0
        assert child.poll() is None


def test_systemd_is_told(nats: BrokerProcess, tmp_path: Path) -> None:
    """READY once it works, the watchdog fed while it does, STOPPING at the end."""
    address = f"\0hushmq-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(20)
        environment = {"NOTIFY_SOCKET": f"@{address[1:]}", "WATCHDOG_USEC": "400000"}
        with process(write_config(tmp_path, nats), environment=environment) as child:
            assert manager.recv(100) == b"READY=1"
            assert [manager.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
            child.send_signal(signal.SIGTERM)
            said = manager.recv(100)
            while said == b"WATCHDOG=1":
                said = manager.recv(100)
            assert said == b"STOPPING=1"
            assert child.wait(10) == 0


def test_an_old_backup_and_only_the_broker_remembers(broker: BrokerProcess, tmp_path: Path) -> None:
    """With database and mark file both put back, the sealed head retained on the broker stops the releases."""
    config = write_config(tmp_path, broker)
    with Client(broker, "ops", EVERYTHING) as ops:
        with process(config) as child:
            ops.say(TOPICS.policy, signed(policy(**QUICK)), retain=True)
            ops.wait_for_setting()
            child.send_signal(signal.SIGTERM)
            assert child.wait(10) == 0
        shutil.copy(tmp_path / "ledger.db", tmp_path / "backup.db")
        with process(config):
            send(broker, "wearable-1", begun_window())
            wait_until(lambda: (one := ops.ledger()) is not None and one.entries >= 1)
            wait_until(ops.releases)
        for name in ("ledger.db-wal", "ledger.db-shm", "ledger.db.mark"):
            (tmp_path / name).unlink(missing_ok=True)
        shutil.copy(tmp_path / "backup.db", tmp_path / "ledger.db")
        released = len(ops.releases())
        with process(config):
            wait_until(lambda: "ledger_behind" in (tmp_path / "log").read_text())
            first = tick()
            send(broker, "wearable-2", first - 20)
            wait_until(lambda: ops.seen("wearable-2") is not None)
            wait_until(lambda: tick() > first + 250)
            assert len(ops.releases()) == released
            said = ops.ledger()
            assert said is not None
            assert said.entries >= 1


def test_the_reference_is_up_to_date() -> None:
    """docs/calibrator-configuration.md is what the models say."""
    path = Path(__file__).parents[2] / reference.PATH
    assert path.read_text() == reference.document()


@pytest.mark.parametrize(
    "setting", ["broker.urls", "keys.ops_keys", "devices.strikes", "metrics.port", "mark_file"]
)
def test_the_reference_describes(setting: str) -> None:
    """Every setting is in the reference, in its section."""
    *section, name = setting.split(".")
    text = reference.document()
    if section:
        text = text[text.index(f"## `[{section[0]}]`") :]
    assert f"| `{name}` |" in text
