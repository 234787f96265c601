"""`hushmq broker`: create a site, run its broker, add a device, revoke it."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest
from cryptography import x509

from hushmq.__main__ import main
from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.mqtt.endpoint import Endpoint, Tls
from hushmq.broker.provision.broker_process import free_port
from hushmq.broker.provision.site_folder import SiteFolder
from tests.broker.plain import PATIENCE
from tests.broker.scripted import wait_for

T = Topics("home")


def hushmq(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A site on a free loopback port."""
    path = tmp_path / "home"
    port = free_port("127.0.0.1")
    at = ("--host", "127.0.0.1", "--listen", "127.0.0.1", "--port", port)
    assert hushmq("broker", "init", "--site", path, "--cohort", "home", *at) == 0
    return path


def endpoint(text: str) -> Endpoint:
    """Return the endpoint that an agent reads from the `[broker]` section that add-device prints."""
    section = tomllib.loads(text)["broker"]
    tls = Tls(**{name: Path(value) for name, value in section["tls"].items()})
    password = Path(section["password_file"]).read_text().strip() if "password_file" in section else None
    return Endpoint.parse(section["urls"][0], username=section.get("username"), password=password, tls=tls)


class Running:
    """`hushmq broker run` as a process, and its log."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "hushmq", "broker", "run", "--site", str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self._lines.put(line)

    def hear(self) -> str:
        """The next line."""
        return self._lines.get(timeout=PATIENCE)

    def __enter__(self) -> Running:
        line = self.hear()
        assert "broker_running" in line, line
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()


def save(folder: Path, text: str) -> None:
    """Save site.toml as an editor does, in one step."""
    (folder / "new").write_text(text)
    (folder / "new").replace(folder / "site.toml")


def broker_pid(folder: Path) -> int:
    """The nats-server that `broker run` has started, from its log."""
    return int((folder / "nats" / "broker.log").read_text().split("]")[0].strip("["))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_household_runs_a_broker(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A device added while the broker runs connects with its credentials; revoke disconnects it."""
    capsys.readouterr()
    with Running(folder) as run:
        assert hushmq("broker", "add-device", "--site", folder, "wearable-1", "--out", tmp_path / "w") == 0
        device = Connection(
            endpoints=[endpoint(capsys.readouterr().out)],
            client_id="w",
            subscriptions=[T.policy, T.seen("wearable-1")],
        )
        device.start()
        assert device.wait_connected(PATIENCE), device.last_error
        assert hushmq("broker", "revoke", "--site", folder, "wearable-1") == 0
        wait_for(lambda: not device.connected, "the device to be thrown out")
        wait_for(lambda: "not authorized" in (device.last_error or ""), "the reason")
        device.stop()
        pid = broker_pid(folder)
        run.process.terminate()
        assert run.process.wait(PATIENCE) == 0
        wait_for(lambda: not alive(pid), "the broker to end")


@pytest.mark.slow
def test_the_site_may_be_named_from_where_one_stands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative --site works like an absolute one, also for TLS files."""
    monkeypatch.chdir(folder.parent)
    with Running(Path(folder.name)) as run:
        run.process.terminate()
        assert run.process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_interrupting_ends_the_broker_too(folder: Path) -> None:
    """Ctrl-C: exit code 130, no process left."""
    with Running(folder) as run:
        pid = broker_pid(folder)
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(PATIENCE) == 130
        wait_for(lambda: not alive(pid), "the broker to end")


@pytest.mark.slow
def test_a_broker_that_ends_by_itself_is_reported(folder: Path) -> None:
    """When the broker ends, the command prints its last log line and exits with 2, so that a supervisor restarts it."""
    with Running(folder) as run:
        os.kill(broker_pid(folder), signal.SIGKILL)
        assert run.process.wait(PATIENCE) == 2
        assert "hushmq: the broker ended: " in run.hear()


@pytest.mark.slow
def test_a_spoilt_description_changes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An invalid site.toml is reported while the broker runs, and the old one stays in force."""
    with Running(folder) as run:
        good = (folder / "site.toml").read_text()
        save(folder, good.replace('cohort = "home"', 'cohort = "Home!"'))
        line = run.hear()
        assert "site_reload_refused" in line
        assert "cohort" in line
        save(folder, good)
        assert "site_reloaded" in run.hear()


@pytest.mark.slow
def test_another_way_to_identify_needs_a_restart(folder: Path) -> None:
    """Passwords stay in force: a running broker would otherwise let anyone in without one."""
    with Running(folder) as run:
        good = (folder / "site.toml").read_text()
        assert 'identify = "password"' in good
        save(folder, good.replace('identify = "password"', 'identify = "certificate"'))
        line = run.hear()
        assert "site_reload_refused" in line
        assert "identify" in line
        save(folder, good)
        assert "site_reloaded" in run.hear()


def test_config_writes_what_it_says(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every file printed exists, secret files are private, and paths are those of the broker's machine."""
    for kind in ("nats", "mosquitto"):
        capsys.readouterr()
        out = tmp_path / kind
        assert hushmq("broker", "config", kind, "--site", folder, "--out", out, "--path", "/etc/hushmq") == 0
        files = [Path(line) for line in capsys.readouterr().out.splitlines()]
        assert {file.name for file in files} >= {f"{kind}.conf", "server.pem", "server.key", "ca.pem"}
        private = [file for file in files if file.suffix != ".pem"]
        assert {file.stat().st_mode & 0o777 for file in private} == {0o600}
        text = (out / f"{kind}.conf").read_text()
        assert "/etc/hushmq/server.pem" in text
        assert str(tmp_path) not in text


def test_a_cluster_from_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With three --node, the certificate names all nodes, and each has a folder of configuration."""
    nodes = ("--node", "a=10.0.0.1", "--node", "b=10.0.0.2:1883", "--node", "c=node-c.lan")
    assert hushmq("broker", "init", "--site", tmp_path / "s", "--cohort", "home", *nodes) == 0
    assert "mqtts://10.0.0.1:8883, mqtts://10.0.0.2:1883, mqtts://node-c.lan:8883" in capsys.readouterr().out
    assert hushmq("broker", "config", "nats", "--site", tmp_path / "s", "--out", tmp_path / "out") == 0
    for name in ("a", "b", "c"):
        found = json.loads((tmp_path / "out" / name / "nats.conf").read_text())
        assert found["server_name"] == name
        assert len(found["cluster"]["routes"]) == 3
        assert Path(found["mqtt"]["tls"]["cert_file"]).exists()
    assert SiteFolder(tmp_path / "s").authority.serves(["10.0.0.1", "10.0.0.2", "node-c.lan"])
    assert hushmq("broker", "config", "mosquitto", "--site", tmp_path / "s", "--out", tmp_path / "m") == 2
    assert "Mosquitto has no cluster" in capsys.readouterr().err


def test_nodes_and_hosts_written_by_hand_are_certified_too(folder: Path, tmp_path: Path) -> None:
    """A host added to site.toml is in the certificate of the next configuration."""
    text = (
        (folder / "site.toml")
        .read_text()
        .replace('hosts = ["127.0.0.1"]', 'hosts = ["127.0.0.1", "new.lan"]')
    )
    nodes = "".join(f'\n[[nodes]]\nname = "{name}"\nhost = "{name}.lan"\n' for name in "abc")
    save(folder, text + nodes)
    assert hushmq("broker", "config", "nats", "--site", folder, "--out", tmp_path / "out") == 0
    assert SiteFolder(folder).authority.serves(["127.0.0.1", "new.lan", "a.lan", "b.lan", "c.lan"])


def test_show_and_renew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All identities are listed with their certificate's expiry; the exit code is 1 while one is due for renewal."""
    site = tmp_path / "site"
    given = ("--cohort", "home", "--host", "127.0.0.1", "--identify", "certificate")
    assert hushmq("broker", "init", "--site", site, *given) == 0
    assert hushmq("broker", "show", "--site", site) == 0
    assert "RENEW" not in capsys.readouterr().out
    SiteFolder(site).authority.issue_client("calibrator", days=10)
    assert hushmq("broker", "show", "--site", site) == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if "RENEW IT" in line] == [
        "calibrator"
    ]
    assert hushmq("broker", "show", "--site", site, "--json") == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["urls"] == ["mqtts://127.0.0.1:8883"]
    assert {who["name"]: who["certificate"]["due"] for who in printed["identities"]} == {
        "ops": False,
        "calibrator": True,
        "subscriber": False,
    }
    authority = SiteFolder(site).authority
    old = x509.load_pem_x509_certificate(authority.files("calibrator")[0].read_bytes()).serial_number
    assert hushmq("broker", "renew", "--site", site, "calibrator", "--out", tmp_path / "c") == 0
    revoked = x509.load_pem_x509_crl(authority.revoked.read_bytes())
    assert [one.serial_number for one in revoked] == [old]
    assert hushmq("broker", "show", "--site", site) == 0
    handed = (tmp_path / "c" / "certificate.pem").read_bytes()
    assert handed == SiteFolder(site).authority.files("calibrator")[0].read_bytes()


def test_what_was_handed_out_can_be_handed_out_again(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """hand-out writes the same secret and prints the matching settings section, also for a site without TLS."""
    capsys.readouterr()
    for name in ("once", "again"):
        assert hushmq("broker", "hand-out", "--site", folder, "calibrator", "--out", tmp_path / name) == 0
        section = tomllib.loads(capsys.readouterr().out)["broker"]
        assert section["username"] == "calibrator"
        assert Path(section["password_file"]).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "once" / "password").read_text() == (tmp_path / "again" / "password").read_text()
    assert hushmq("broker", "show", "--site", folder) == 0
    assert "calibrator     calibrator  password" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("init --site {home} --cohort home --host x", "already holds a site"),
        ("init --site {new} --cohort Home --host x", "hushmq broker init: cohort: String should match"),
        ("init --site {new} --cohort home --host x --no-tls", "sends passwords in clear"),
        ("init --site {new} --cohort home", "--host"),
        ("init --site {new} --cohort home --node a", "--node: 'a' is not valid: write NAME=HOST"),
        ("init --site {new} --cohort home --node a=x:y", "--node: 'a=x:y' is not valid: write NAME=HOST"),
        ("init --site {new} --cohort home --node a=x --node b=y", "a cluster has 3 or 5 nodes"),
        ("hand-out --site {home} nobody --out {new}", "there is no identity 'nobody'"),
        ("renew --site {home} nobody --out {new}", "there is no identity 'nobody'"),
        ("renew --site {home} ops --out {new}", "ops has a password, which does not expire"),
        ("show --site {new}", "create a site with hushmq broker init"),
        ("add-device --site {home} a/b --out {new}", "'a/b' is not a valid topic level"),
        ("add-device --site {home} ops --out {new}", "ops already exists, with the role ops"),
        ("add-device --site {new} a --out {new}", "create a site with hushmq broker init"),
        ("revoke --site {home} nobody", "there is no identity 'nobody'"),
        ("config rabbitmq --site {home} --out {new}", "rabbitmq"),
        ("run --site {new}", "create a site with hushmq broker init"),
        ("", "required"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    """The line says what is wrong; the site is unchanged."""
    before = (folder / "site.toml").read_text()
    capsys.readouterr()
    assert hushmq("broker", *arguments.format(home=folder, new=tmp_path / "new").split()) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.count("\n") == 1
    assert (folder / "site.toml").read_text() == before


def test_a_port_in_use_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second broker of the same site reports the port that is in use."""
    with Running(folder):
        capsys.readouterr()
        assert hushmq("broker", "run", "--site", folder) == 2
        assert "is in use: choose another one" in capsys.readouterr().err
