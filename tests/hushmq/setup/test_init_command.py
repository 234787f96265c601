"""A site is made from a few answers, complete, private and movable."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hushmq.__main__ import main
from hushmq.agent.agent_config import load as load_agent
from hushmq.agent.sources.source_config import Mqtt
from hushmq.broker.contract.signature import PrivateKey
from hushmq.calibrator.calibrator_config import load as load_calibrator
from hushmq.setup.household import Household


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site that no test changes."""
    path = tmp_path_factory.mktemp("made") / "home"
    assert main(["init", str(path), "--yes"]) == 0
    return path


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    """A copy of a site."""
    return Path(shutil.copytree(made, tmp_path / "home"))


def test_a_site_is_complete_private_and_movable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its files agree with each other, wherever the folder is moved; what is secret is for its owner alone."""
    assert main(["init", str(tmp_path / "made"), "--yes", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["cohort"] == "made"
    shutil.move(tmp_path / "made", tmp_path / "home")
    home = Household.open(tmp_path / "home")
    config = load_calibrator(home.calibrator_file, {})
    assert config.cohort == home.policy().cohort == "made"
    assert config.database == f"sqlite:///{tmp_path}/home/calibrator/ledger.db"
    assert config.keys.ops_keys == (str(PrivateKey.load(home.ops_key).public),)
    assert home.folder.authority.serves(home.folder.description.certified_hosts)
    for path in home.path.rglob("*"):
        private = path.suffix not in {".pem", ".md"} and path.name != "policy.toml"
        assert not private or not path.stat().st_mode & 0o077, path


def test_windows_fit_the_period_and_the_first_shows_within_minutes(tmp_path: Path) -> None:
    """The default has a window of a minute beside the hour; a slow stream has longer ones."""
    assert main(["init", str(tmp_path / "a"), "--yes"]) == 0
    (stream,) = Household.open(tmp_path / "a").policy().streams.values()
    lengths = [window.ticks * stream.period_ms / 1000 for window in stream.windows.values()]
    assert lengths == [60.0, 3600.0]
    slow = "--lasting 9h,15h --period 30min --states away,home --threshold none --yes"
    assert main(["init", str(tmp_path / "b"), *slow.split()]) == 0
    (stream,) = Household.open(tmp_path / "b").policy().streams.values()
    assert list(stream.windows) == ["week"]
    assert stream.discretiser.kind == "labels"


def test_it_asks_for_what_no_option_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that cannot be is asked for again; an empty one is the default."""
    answers = iter(["flat", "presence", "away", "away,home", "", "", ""])
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda words: (asked.append(words), next(answers))[1])
    assert main(["init", str(tmp_path / "x"), "--threshold", "3.5"]) == 0
    policy = Household.open(tmp_path / "x").policy()
    assert (policy.cohort, policy.streams["presence"].states) == ("flat", ("away", "home"))
    assert len(asked) == 6


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--states one", "--states: 'one' is not two names"),
        ("--lasting 5", "--lasting: '5' is not two durations"),
        ("--lasting 5s,soon", "--lasting: 'soon' is no duration"),
        ("--period 0s", "--period: '0s' is no duration"),
        ("--period 3d", "--period: it must be between 1ms and 1d"),
        ("--cohort A/B", "--cohort: "),
        ("--threshold x", "--threshold: 'x' is no number"),
        ("--port 0", "port: Input should be greater"),
        ("--window day", "--window: "),
        ("--epsilon 30", "--epsilon: 30 is above 20"),
        ("--host a_b!", "hosts.0: String should match"),
        ("--lasting 3650d,3650d --period 1ms", "period: a state lasts more than ten million times 0.001 s"),
    ],
)
def test_a_bad_option_is_told_in_one_line_and_makes_nothing(
    tmp_path: Path, words: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path / "home"), "--yes", *words.split()]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
    assert not (tmp_path / "home").exists()


def test_what_is_there_is_not_overwritten(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second init in the same folder changes nothing."""
    key = (home / "ops" / "ops.key").read_text()
    assert main(["init", str(home), "--yes"]) == 2
    assert "holds site.toml already" in capsys.readouterr().err
    assert (home / "ops" / "ops.key").read_text() == key


SOURCES = [
    (["simulate"], "simulate"),
    (["stdin"], "stdin"),
    (["offer"], "offer"),
    (["file=/var/log/pulse"], "file"),
    (["mqtt=mqtt://localhost:1884/zigbee2mqtt/door", "--json-path", "contact"], "mqtt"),
    (["motion:simulate"], "simulate"),
]


@pytest.mark.parametrize(("source", "kind"), SOURCES)
def test_a_bundle_holds_all_that_a_device_needs(
    home: Path, tmp_path: Path, source: list[str], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unpacked anywhere, its settings are right, and it trusts the site's keys."""
    (home / "ops").rename(tmp_path / "stick")
    bundle = tmp_path / "ring.bundle"
    assert main(["device", "add", str(home), "ring", "--source", *source, "--out", str(bundle)]) == 0
    assert bundle.stat().st_mode & 0o777 == 0o600
    shutil.rmtree(home)
    where = tmp_path / "elsewhere"
    assert main(["agent", "enroll", str(bundle), "--folder", str(where), "--offline"]) == 0
    config = load_agent(where / "agent.toml", {})
    assert (config.device, config.folder) == ("ring", where / "data")
    assert config.streams["motion"].source.kind == kind
    assert config.trust.ops_keys == (str(PrivateKey.load(tmp_path / "stick" / "ops.key").public),)
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in where.iterdir())
    assert main(["agent", "enroll", str(bundle), "--folder", str(where), "--offline"]) == 2
    assert "--replace" in capsys.readouterr().err


LOGIN = "--source-user me --source-password-file {home}/passwords/ops"


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("mqtt://localhost:1884", []),
        ("mqtts://gateway", ["--source-ca", "{home}/authority/ca.pem"]),
        ("ws://gateway", ["--password-in-clear-text"]),
    ],
)
def test_a_device_logs_in_at_the_broker_of_its_source(
    home: Path, tmp_path: Path, url: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """With a password that is in no settings file and on no screen, and every topic filter as it is written."""
    given = [*LOGIN.split(), *options, "--out", str(tmp_path / "b")]
    source = f"mqtt={url}/zigbee2mqtt/#"
    words = [
        "device",
        "add",
        str(home),
        "ring",
        "--source",
        source,
        *(one.format(home=home) for one in given),
    ]
    assert main(words) == 0
    secret = (home / "passwords" / "ops").read_text().strip()
    shutil.rmtree(home)
    assert main(["agent", "enroll", str(tmp_path / "b"), "--folder", str(tmp_path / "d"), "--offline"]) == 0
    assert secret not in capsys.readouterr().out
    assert secret not in (tmp_path / "d" / "agent.toml").read_text()
    source_settings = load_agent(tmp_path / "d" / "agent.toml", {}).streams["motion"].source
    assert isinstance(source_settings, Mqtt)
    endpoint = source_settings.endpoint()
    assert (source_settings.topic, endpoint.username, endpoint.password) == ("zigbee2mqtt/#", "me", secret)
    if endpoint.tls is not None:
        endpoint.tls.context()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("add {home} ring", "--source: say where the values come from"),
        ("add {home} ring --source oracle", "--source: 'oracle' is no source"),
        ("add {home} ring --source file", "--source: 'file' is no source"),
        ("add {home} ring --source simulate=1", "--source: 'simulate=1' is no source"),
        ("add {home} ring --source pulse:stdin", "--source: the policy has no stream 'pulse'; it has motion"),
        ("add {home} ring --source mqtt=localhost/x", "names no topic"),
        ("add {home} ring --source mqtt=http://h/x", "--source: broker address 'http://h' is not valid"),
        (
            "add {home} ring --source mqtt=mqtt://me:word@h/x",
            "--source: broker address: it contains credentials",
        ),
        (
            "add {home} ring --source mqtt=mqtt://h/x --source-user me",
            "--source-user and --source-password-file",
        ),
        ("add {home} ring --source mqtt=mqtts://h/x --source-ca {home}/site.toml", "not a valid PEM file"),
        ("add {home} ring --source mqtt=mqtt://h/x --source-ca {home}/site.toml", "so write mqtts://"),
        (
            f"add {{home}} ring --source mqtt=mqtt://h/x {LOGIN}",
            "over the network in clear text: write mqtts://",
        ),
        (f"add {{home}} ring --source offer {LOGIN}", "is for mqtt=URL/TOPIC only"),
        ("add {home} ring --source offer --json-path a", "--json-path: values of offer are no JSON"),
        ("add {home} RING --source offer", "'RING'"),
        ("add {home} ops --source offer", "ops already exists, with the role ops"),
        ("add {home} cohort --source offer", "no device may have the name 'cohort'"),
        ("add {home} ring --source offer --here --out x", "--out: a device that runs here needs no bundle"),
        ("add {home}/none ring --source offer", "holds no site: make one with hushmq init"),
        ("revoke {home} nobody", "there is no device 'nobody'"),
        ("revoke {home} calibrator", "there is no device 'calibrator'"),
    ],
)
def test_a_bad_device_is_told_in_one_line(
    home: Path, words: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (home / "site.toml").read_text()
    capsys.readouterr()
    assert main(["device", *words.format(home=home).split()]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
    assert (home / "site.toml").read_text() == before


def test_a_revoked_device_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its password, its bundle and its place among those that run here; a broker that is not there is told."""
    monkeypatch.setattr("hushmq.setup.device_command.ANSWER_S", 0.3)
    home = tmp_path / "home"
    assert main(["init", str(home), "--yes", "--listen", "127.0.0.1", "--port", "1"]) == 0
    assert main(["device", "add", str(home), "ring", "--source", "simulate", "--here"]) == 0
    assert list(Household.open(home).here()) == ["ring"]
    capsys.readouterr()
    assert main(["device", "list", str(home)]) == 0
    assert "the broker does not answer" in (told := capsys.readouterr().out)
    assert "ring  not seen yet, runs here" in told
    assert main(["device", "revoke", str(home), "ring"]) == 0
    assert Household.open(home).here() == {}
    assert not (home / "passwords" / "ring").exists()
    capsys.readouterr()
    assert main(["device", "list", str(home), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"cohort": "home", "broker": False, "devices": {}}


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"kind":"hushmq-bundle","v":2}', b"\xff", b"x" * 2_000_000]
)
def test_what_is_no_bundle_is_refused(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b").write_bytes(content)
    assert main(["agent", "enroll", str(tmp_path / "b")]) == 2
    assert capsys.readouterr().err.endswith("is no bundle that `hushmq device add` of this version writes\n")


def test_a_bundle_writes_nowhere_else(tmp_path: Path) -> None:
    """A file name that is not one of a bundle's is refused, whatever path it is."""
    content = {
        "kind": "hushmq-bundle",
        "v": 1,
        "device": "a",
        "cohort": "b",
        "files": {"agent.toml": "", "../x": ""},
    }
    (tmp_path / "b").write_text(json.dumps(content))
    assert main(["agent", "enroll", str(tmp_path / "b"), "--folder", str(tmp_path / "c")]) == 2
    assert not (tmp_path / "c").exists()
    assert not (tmp_path / "x").exists()


def test_units_and_compose_name_the_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Absolute paths, one unit for each process, and one folder that each may write to."""
    import yaml

    home = tmp_path / "my home"
    assert main(["init", str(home), "--yes"]) == 0
    assert main(["device", "add", str(home), "ring", "--source", "simulate", "--here"]) == 0
    assert (
        main(["up", str(home), "--print", "systemd", "--out", str(tmp_path / "units"), "--user", "hushmq"])
        == 0
    )
    units = {path.name: path.read_text() for path in (tmp_path / "units").iterdir()}
    assert set(units) == {
        "hushmq-agent-ring.service",
        "hushmq-broker-my-home.service",
        "hushmq-calibrator-my-home.service",
    }
    assert all("User=hushmq\n" in text and f'"{home}' in text for text in units.values())
    capsys.readouterr()
    assert main(["up", str(home), "--print", "compose"]) == 0
    tree = yaml.safe_load(capsys.readouterr().out)
    assert tree["services"]["broker"]["volumes"] == [f"{home}:/site"]
    assert main(["up", str(home), "--out", "x"]) == 2
