"""Passwords and private keys are in files for their owner alone: in no command line, environment, log or answer."""

from __future__ import annotations

import io
import os
import signal
import ssl
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hushmq.agent.agent_config import MetricsSection as AgentMetrics
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.access_rights import ServerTls, Site
from hushmq.broker.provision.authority import Authority
from hushmq.broker.provision.broker_process import free_port
from hushmq.broker.provision.nats import NatsServer
from hushmq.broker.service.log import logger
from hushmq.calibrator.calibrator_config import MetricsSection as CalibratorMetrics
from tests.agent.peer import wait_until

PATIENCE_S = 90.0


def hushmq(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "hushmq", *arguments]


def run(*arguments: str) -> str:
    done = subprocess.run(
        hushmq(*arguments),
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout + done.stderr


def family(pid: int) -> set[int]:
    """A process and all that it has started."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, new = {pid}, [pid]
    while new:
        new = [child for one in new for child in parents.get(one, [])]
        found |= set(new)
    return found


def shown_of(pid: int) -> bytes:
    """What others on the machine can see of a process; nothing where it has ended."""
    try:
        return b"".join(Path(f"/proc/{pid}/{what}").read_bytes() for what in ("cmdline", "environ"))
    except (FileNotFoundError, ProcessLookupError):
        return b""


def files_below(folder: Path) -> list[Path]:
    """All files, also while a broker makes and deletes some."""
    return [Path(where) / name for where, _, names in os.walk(folder) for name in names]


def secrets_of(home: Path) -> set[bytes]:
    """Every password and private key of a site, as it is written."""
    found = {path.read_bytes().strip() for path in (home / "passwords").iterdir()}
    for key in (path.read_bytes() for path in files_below(home) if path.suffix == ".key"):
        found.add(key.splitlines()[1] if key.startswith(b"-----BEGIN") else key.strip())
    described = tomllib.loads((home / "site.toml").read_text())
    found |= {one["password"].encode() for one in described.get("identities", []) if "password" in one}
    return found


def holders(secrets: set[bytes], below: Path) -> list[Path]:
    files = [path for path in files_below(below) if path.is_file()]
    return [path for path in files if any(one in path.read_bytes() for one in secrets)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_no_secret_of_a_site_that_runs_is_to_be_seen(tmp_path: Path) -> None:
    """Broker, calibrator and a device run: what `ps`, /proc, logs and answers show holds no password and no key."""
    home, port = tmp_path / "home", free_port("127.0.0.1")
    said = run(
        "init", str(home), "--yes", "--host", "127.0.0.1", "--listen", "127.0.0.1", "--port", str(port)
    )
    log = tmp_path / "up.log"
    with log.open("wb") as output:
        up = subprocess.Popen(
            hushmq("up", str(home)),
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        wait_until(
            lambda: len(family(up.pid)) >= 3 and (home / "calibrator" / "ledger.db").exists(), PATIENCE_S
        )
        said += run("device", "add", str(home), "ring", "--source", "simulate")
        enrolled = tmp_path / "ring"
        said += run("agent", "enroll", str(home / "bundles" / "ring.bundle"), "--folder", str(enrolled))
        agent = subprocess.Popen(
            hushmq("agent", "run", "--config", str(next(enrolled.rglob("agent.toml")))),
            stderr=(tmp_path / "agent.log").open("wb"),
            stdin=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: b"setting_applied" in (tmp_path / "agent.log").read_bytes(), PATIENCE_S)
            secrets = secrets_of(home)
            assert len(secrets) >= 5
            assert min(map(len, secrets)) >= 16
            processes = family(up.pid) | family(agent.pid)
            assert len(processes) >= 4
            shown = b"".join(shown_of(pid) for pid in processes)
            shown += said.encode() + log.read_bytes() + (tmp_path / "agent.log").read_bytes()
            assert not [one for one in secrets if one in shown]
        finally:
            agent.kill()
            agent.wait()
    finally:
        os.killpg(up.pid, signal.SIGTERM)
        up.wait(PATIENCE_S)
    found = holders(secrets, tmp_path)
    assert len(found) >= 6
    for path in found:
        assert not path.stat().st_mode & 0o077, path
    for folder in {path.parent for path in found} - {tmp_path}:
        assert not folder.stat().st_mode & 0o077, folder
    assert not [path for path in found if path.suffix == ".log"]


def test_metrics_and_health_are_served_on_loopback_unless_told_otherwise() -> None:
    assert AgentMetrics().host == CalibratorMetrics().host == "127.0.0.1"
    assert AgentMetrics().port is CalibratorMetrics().port is None


@pytest.mark.parametrize("path", [None, "/mqtt"])
def test_a_certificate_for_another_name_is_refused(site: Site, tmp_path: Path, path: str | None) -> None:
    """Signed by the authority that is trusted, and for another host: no password is sent to whoever shows it."""
    authority = Authority.create(tmp_path / "authority")
    authority.issue_server(["broker.example"])
    tls = ServerTls(*authority.server, authority.certificate)
    web = free_port("127.0.0.1")
    with NatsServer(site, tmp_path / "nats", tls=tls, websocket_port=web) as server:
        endpoint = server.endpoint("ops")
        assert endpoint.tls is not None
        assert endpoint.tls.context().check_hostname
        assert endpoint.tls.context().verify_mode is ssl.CERT_REQUIRED
        if path is not None:
            endpoint = endpoint.__class__(
                endpoint.host, web, username="ops", password=endpoint.password, tls=endpoint.tls, path=path
            )
        found = Connection(endpoints=[endpoint], client_id="ops", log=logger("error", "json", io.StringIO()))
        found.start()
        try:
            wait_until(lambda: found.last_error is not None, PATIENCE_S)
            assert "certificate" in str(found.last_error)
            assert not found.connected
        finally:
            found.stop()
        assert "ops-secret" not in server.log.read_text()
