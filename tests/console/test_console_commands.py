"""`hushmq console`: a folder that works, users, the log, and settings that are refused."""

from __future__ import annotations

import io
import json
import ssl
import threading
import urllib.request
from pathlib import Path

import pytest

from hushmq.__main__ import main
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.provision.nats import NatsServer
from hushmq.broker.provision.site_folder import SiteFolder
from hushmq.broker.service.log import logger
from hushmq.calibrator.store.open_database import open_store
from hushmq.console.console_config import load_console
from hushmq.console.daemon import ConsoleDaemon
from tests.console.browsed_site import wait_for


def hushmq(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture
def calibrator(tmp_path: Path) -> Path:
    """A site and a calibrator's settings for it."""
    assert (
        hushmq("broker", "init", "--site", tmp_path / "site", "--cohort", "home", "--host", "127.0.0.1") == 0
    )
    PrivateKey(b"c" * 32).save(tmp_path / "signing.key")
    (tmp_path / "calibrator.toml").write_text(
        f'cohort = "home"\ndatabase = "sqlite:///{tmp_path}/ledger.db"\ngrace_s = 7\n'
        f'[broker]\nurls = ["mqtts://127.0.0.1:8883"]\n'
        f'[keys]\nops_keys = ["{PrivateKey(b"o" * 32).public}"]\nsigning_key_file = "{tmp_path}/signing.key"\n'
    )
    return tmp_path / "calibrator.toml"


def init(calibrator: Path, *more: object) -> int:
    folder = calibrator.parent
    given = ("--site", folder / "site", "--calibrator", calibrator, "--out", folder / "console")
    return hushmq("console", "init", *given, *more)


@pytest.mark.slow
def test_what_init_makes_runs(calibrator: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The broker knows its identity, the site's authority vouches for it, and the printed password logs in."""
    capsys.readouterr()
    assert init(calibrator, "--port", 0, "--json") == 0
    made = json.loads(capsys.readouterr().out)
    config, folder = load_console(Path(made["config"]), {}), calibrator.parent
    assert config.grace_s == 7
    assert config.tls is not None
    assert b"PRIVATE" not in Path(made["config"]).read_bytes()
    assert str(folder / "signing.key") not in Path(made["config"]).read_text()
    assert init(calibrator) == 2
    assert "already holds a console" in capsys.readouterr().err
    open_store(config.database).dispose()
    site = SiteFolder(folder / "site")
    with NatsServer(site.site(), folder / "nats", tls=site.server_tls()) as server:
        broker = config.broker.model_copy(update={"urls": (f"mqtts://127.0.0.1:{server.port}",)})
        daemon = ConsoleDaemon(
            config.model_copy(update={"broker": broker}), log=logger("error", "json", io.StringIO())
        )
        found: list[str] = []
        thread = threading.Thread(target=daemon.run, args=(found.append,))
        thread.start()
        try:
            wait_for(lambda: found)
            trusted = ssl.create_default_context(cafile=folder / "site" / "authority" / "ca.pem")
            with urllib.request.urlopen(f"{found[0]}health", context=trusted) as answer:  # noqa: S310
                assert json.load(answer) == {"ready": True}
                assert "max-age" in answer.headers["strict-transport-security"]
            wait_for(lambda: daemon.context.site.connected)
            assert daemon.context.users.login(made["user"], made["password"]) is not None
        finally:
            daemon.stop()
            thread.join(20)
    assert not thread.is_alive()
    assert hushmq("console", "verify-log", "--config", made["config"], "--json") == 0
    assert json.loads(capsys.readouterr().out)["right"]
    log = config.log_file
    log.write_text(log.read_text().replace("the console ends", "nothing happened"))
    assert hushmq("console", "verify-log", "--config", made["config"]) == 1


def test_users_come_and_go(
    calibrator: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password from standard input or a generated one; roles are listed."""
    assert init(calibrator) == 0
    at = ("--config", calibrator.parent / "console" / "console.toml")
    monkeypatch.setattr("sys.stdin", io.StringIO("a long password\n"))
    assert hushmq("console", "user", "add", "vic", *at) == 0
    capsys.readouterr()
    assert hushmq("console", "user", "list", *at, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"ops": "operator", "vic": "viewer"}
    assert hushmq("console", "user", "remove", "vic", *at) == 0
    assert hushmq("console", "user", "remove", "vic", *at) == 2
    assert "there is no such user; there are ops" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    assert hushmq("console", "user", "add", "bob", *at) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('listen = "127.0.0.1"', 'listen = "0.0.0.0"'), "passwords cross the network in clear text"),
        (('hosts = ["127.0.0.1"]', 'health_url = "file:///etc/passwd"'), "begins with http:// or https://"),
        (("[keys]", "[keys]\nsigning_key_file = 'x'"), "there is no such setting"),
    ],
)
def test_bad_settings_are_one_line(
    calibrator: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], words: str
) -> None:
    """Plain HTTP for others, an address that is none, and a private key are refused."""
    assert init(calibrator) == 0
    file = calibrator.parent / "console" / "console.toml"
    text = file.read_text().partition("[tls]")[0]
    assert change[0] in text
    file.write_text(text.replace(*change))
    capsys.readouterr()
    assert hushmq("console", "run", "--config", file) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
