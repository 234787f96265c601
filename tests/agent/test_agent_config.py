"""The configuration: everything wrong is one Problem naming the setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.agent.agent_config import load
from hushmq.agent.sources.source_config import Mqtt, Simulate
from hushmq.broker.contract.problem import Problem
from tests.agent.peer import write_config


def test_a_good_file_is_read_with_its_defaults(tmp_path: Path) -> None:
    config = load(write_config(tmp_path, 1883), {})
    assert config.device == "wearable-1"
    assert isinstance(config.streams["motion"].source, Simulate)
    assert config.outbox.max_bytes == 64 * 2**20
    endpoint = config.broker.endpoints()[0]
    assert (endpoint.port, endpoint.username, endpoint.password) == (1883, "wearable-1", "wearable-1-secret")


BAD = [
    ('device = "wearable-1"', 'device = "No Level"', "device: "),
    ('device = "wearable-1"', "", "device: Field required"),
    ("[publish]", "[publish]\nbeat = 3", "publish.beat: there is no such setting; did you mean beat_ms?"),
    ("[publish]", "[publsh]", "publsh: there is no such setting; did you mean publish?"),
    ("beat_ms = 50", "beat_ms = 0", "publish.beat_ms: Input should be greater than or equal to 1 (it is 0)"),
    ("beat_ms = 50", 'beat_ms = "50"', "publish.beat_ms: Input should be a valid integer (it is '50')"),
    ("epsilon_max = 4.0", "epsilon_max = nan", "trust.epsilon_max: "),
    ("epsilon_max = 4.0", "epsilon_max = true", "trust.epsilon_max: Input should be a valid number"),
    (
        "epsilon_max = 4.0",
        "epsilon_max = -1.0",
        "trust.epsilon_max: Input should be greater than 0 (it is -1.0)",
    ),
    ("epsilon_max = 4.0", "epsilon_max = 4.0\nrho_min = 1.0", "trust.rho_min: "),
    ("ops_keys = [", 'ops_keys = ["short", ', "trust.ops_keys: a key is 32 bytes in base64"),
    (
        "mqtt://",
        "http://",
        "broker.urls: broker address 'http://127.0.0.1:1' is not valid; write mqtt://host",
    ),
    ('urls = ["mqtt:', 'tls = {ca = "/absent"}\nurls = ["mqtts:', "TLS: ca /absent: No such file"),
    ('/password"', '/absent"', "broker.password_file: "),
    ("q = 0.25", "q = 1.5", "streams.motion.source.q: Input should be less than 1 (it is 1.5)"),
    ('kind = "simulate"', 'kind = "oracle"', "streams.motion.source.kind: it takes one of 'simulate', "),
    ('kind = "simulate"', "", "streams.motion.source.kind: Field required"),
    ("[trust]", "[trust", "not TOML: Expected ']'"),
    ("[streams.motion.source]", "[streams.Motion.source]", "streams.Motion"),
]


@pytest.mark.parametrize(("good", "bad", "expected"), BAD)
def test_a_wrong_setting_is_named_with_what_is_wrong(
    tmp_path: Path, good: str, bad: str, expected: str
) -> None:
    path = write_config(tmp_path)
    text = path.read_text()
    assert good in text
    path.write_text(text.replace(good, bad, 1))
    with pytest.raises(Problem) as caught:
        load(path, {})
    assert expected in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_password_in_the_wrong_place_is_not_repeated(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    path.write_text(path.read_text().replace("[broker]", '[broker]\npassword = "hunter2"'))
    with pytest.raises(Problem, match="did you mean password_file") as caught:
        load(path, {})
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_not_there_or_not_text_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="No such file"):
        load(tmp_path / "absent.toml", {})
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(Problem, match="not UTF-8"):
        load(tmp_path / "binary.toml", {})


def test_a_password_file_open_to_others_is_refused_without_its_content(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    (tmp_path / "password").chmod(0o644)
    with pytest.raises(
        Problem, match=r"password_file: .* is open to others \(mode 644\): chmod 600"
    ) as caught:
        load(path, {})
    assert "secret" not in str(caught.value)


def test_a_password_leaves_this_machine_in_clear_text_only_if_a_setting_accepts_it(tmp_path: Path) -> None:
    """Refused when the file is read, before anything is connected."""
    path = write_config(tmp_path)
    for url, instead in (("mqtt://broker.lan", "mqtts"), ("ws://10.0.0.7:8080", "wss")):
        away = {"HUSHMQ_AGENT__BROKER__URLS": f'["mqtt://127.0.0.1", "{url}"]'}
        with pytest.raises(
            Problem,
            match=rf"broker\.urls: {url}.* write {instead}://, .* broker\.password_in_clear_text = true$",
        ) as caught:
            load(path, away)
        assert "wearable-1-secret" not in str(caught.value)
        accepted = load(path, {**away, "HUSHMQ_AGENT__BROKER__PASSWORD_IN_CLEAR_TEXT": "true"})
        assert accepted.broker.endpoints()[1].exposes_password


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    """Numbers and lists are read as TOML, other text as a string; an invalid one is named by its variable."""
    path = write_config(tmp_path)
    environment = {
        "HUSHMQ_AGENT__PUBLISH__BEAT_MS": "700",
        "HUSHMQ_AGENT__BROKER__URLS": '["mqtts://a", "mqtts://b"]',
        "HUSHMQ_AGENT__LOG__LEVEL": "debug",
        "UNRELATED": "x",
    }
    config = load(path, environment)
    assert config.publish.beat_ms == 700
    assert [endpoint.host for endpoint in config.broker.endpoints()] == ["a", "b"]
    assert config.log.level == "debug"
    with pytest.raises(Problem, match=r"^HUSHMQ_AGENT__PUBLISH__BEAT_MS: publish\.beat_ms: .*'often'"):
        load(path, {"HUSHMQ_AGENT__PUBLISH__BEAT_MS": "often"})
    with pytest.raises(Problem, match=r"^HUSHMQ_AGENT__OUTBOX__SIZE: outbox\.size: there is no such setting"):
        load(path, {"HUSHMQ_AGENT__OUTBOX__SIZE": "1"})
    with pytest.raises(Problem, match="device is a setting, not a section"):
        load(path, {"HUSHMQ_AGENT__DEVICE__NAME": "x"})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('kind = "stdin"\njson_path = "a.b"', 'json_path and where need form = "json"'),
        ('kind = "stdin"\nform = "json"\njson_path = ".a"', "json_path"),
        ('kind = "file"', "file: Field required"),
        ('kind = "serial"\nport = "/dev/x"\nbaud = 1', "baud"),
        ('kind = "mqtt"\nurl = "mqtt://u:p@h"\ntopic = "t"', "credentials"),
        ('kind = "mqtt"\nurl = "mqtt://h"\ntopic = ""', "source.topic: "),
        ('kind = "mqtt"\nurl = "mqtt://h"\ntopic = "a/#/b"', "source.topic: "),
        ('kind = "mqtt"\nurl = "mqtt://h"\ntopic = "a/b+"', "source.topic: "),
        (
            'kind = "mqtt"\nurl = "h"\ntopic = "t"',
            "streams.motion.source.url: broker address 'h' is not valid",
        ),
        (
            'kind = "mqtt"\nurl = "mqtt://h"\ntopic = "t"\npassword_file = "/absent"',
            "streams.motion.source.password_file: /absent: No such file",
        ),
        (
            'kind = "file"\nfile = "/absent"\nreplay = true',
            "streams.motion.source.file: /absent: No such file",
        ),
        ('kind = "file"\nfile = "/absent"\nrepeat = true', "source: repeat needs replay = true"),
        ('kind = "stdin"\nsilent_after_ms = 0', "silent_after_ms"),
        (
            'kind = "stdin"\nmax_age_ms = 60000',
            "the last value is now held; remove it, or write silent_after_ms",
        ),
        (
            'kind = "offer"\nmax_age_ms = 60000',
            "the last value is now held; remove it, or write silent_after_ms",
        ),
        ('kind = "stdin"\n[streams.other.source]\nkind = "stdin"', "standard input has one reader"),
    ],
)
def test_a_wrong_source_is_named(tmp_path: Path, source: str, expected: str) -> None:
    with pytest.raises(Problem) as caught:
        load(write_config(tmp_path, source=source), {})
    assert expected in str(caught.value)


def test_a_serial_port_without_its_library_is_found_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hushmq.agent.sources.source_config.find_spec", lambda _name: None)
    with pytest.raises(Problem, match=r"motion\.source\.kind: 'serial' needs pyserial: pip install"):
        load(write_config(tmp_path, source='kind = "serial"\nport = "/dev/x"'), {})


@pytest.mark.parametrize(
    "topic", ["a", "a/b", "+", "#", "+/b", "a/+/c/#", "/a", "a/", "zigbee2mqtt/Front door"]
)
def test_every_topic_filter_is_taken(tmp_path: Path, topic: str) -> None:
    load(write_config(tmp_path, source=f'kind = "mqtt"\nurl = "mqtt://h"\ntopic = "{topic}"'), {})


LOCAL_TOPIC = """kind = "mqtt"
topic = "zigbee2mqtt/door"
username = "me"
password_file = "password"
"""


def test_a_local_topic_has_separate_credentials(tmp_path: Path) -> None:
    source = f'{LOCAL_TOPIC}url = "mqtts://gateway"'
    section = load(write_config(tmp_path, source=source), {}).streams["motion"].source
    assert isinstance(section, Mqtt)
    assert (section.endpoint().username, section.endpoint().password) == ("me", "wearable-1-secret")


def test_the_password_of_a_source_leaves_this_machine_in_clear_text_only_if_a_setting_accepts_it(
    tmp_path: Path,
) -> None:
    """The same rule as for the broker that is published to; the refusal names the stream's setting."""
    for url in ("mqtt://localhost", "mqtt://127.0.0.1:1884", "mqtts://gateway", "wss://gateway"):
        load(write_config(tmp_path, source=f'{LOCAL_TOPIC}url = "{url}"'), {})
    away = f'{LOCAL_TOPIC}url = "mqtt://gateway"'
    risk = r"streams\.motion\.source\.password_in_clear_text = true$"
    with pytest.raises(
        Problem, match=rf": streams\.motion\.source\.url: mqtt://gateway:1883 .* {risk}"
    ) as caught:
        load(write_config(tmp_path, source=away), {})
    assert "wearable-1-secret" not in str(caught.value)
    load(write_config(tmp_path, source=f"{away}\npassword_in_clear_text = true"), {})


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the current folder is, so that a folder with everything in it can be moved."""
    path = write_config(tmp_path, 1883)
    path.write_text(path.read_text().replace(f"{tmp_path}/", ""))
    assert str(tmp_path) not in path.read_text()
    monkeypatch.chdir("/")
    config = load(path, {})
    assert config.folder == tmp_path / "state"
    assert config.broker.password_file == tmp_path / "password"
