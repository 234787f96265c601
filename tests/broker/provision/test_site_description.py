"""site.toml is read, refused with a clear message, and written without loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.site_description import CertificateFiles, Description, Node, parse, read, write

LEAST = {"cohort": "home", "hosts": ["broker.lan"]}
NODES = [{"name": name, "host": f"{name}.lan"} for name in ("a", "b", "c")]


def test_the_least_description_is_safe(tmp_path: Path) -> None:
    """Cohort and host suffice: TLS with a private authority, passwords, one identity for each of three roles."""
    description = parse(LEAST)
    assert (description.tls, description.identify, description.devices) == ("own-authority", "password", ())
    assert description.urls == ["mqtts://broker.lan:8883"]


@pytest.mark.parametrize(
    "description",
    [
        parse(LEAST),
        parse({**LEAST, "devices": ["wearable-1", "wearable-2"], "identify": "certificate"}),
        parse({**LEAST, "listen": "127.0.0.1", "tls": "none", "port": 1883}),
        parse({**LEAST, "nodes": NODES}),
        Description(
            cohort="home",
            hosts=("broker.lan", "192.168.1.5"),
            tls=CertificateFiles(
                certificate=Path("/etc/a.pem"), key=Path("/etc/a.key"), ca=Path("/etc/ca.pem")
            ),
        ),
    ],
)
def test_what_is_written_is_read(tmp_path: Path, description: Description) -> None:
    """Writing and reading again changes nothing."""
    write(tmp_path / "site.toml", description)
    assert read(tmp_path / "site.toml") == description


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cohort": "Home"}, "cohort: String should match"),
        ({"hosts": []}, "hosts: .*at least 1"),
        ({"hosts": ["a b"]}, r"hosts\.0: String should match"),
        ({"port": 0}, "port: Input should be greater"),
        ({"port": "8883"}, "port: Input should be a valid integer"),
        ({"colour": "red"}, "colour: Extra inputs"),
        ({"devices": ["a", "a"]}, "a is named twice"),
        ({"devices": ["ops"]}, "ops is named twice"),
        ({"devices": ["cohort"]}, "no device may have the name 'cohort'"),
        ({"devices": ["a/b"]}, r"devices\.0: String should match"),
        ({"tls": "none"}, "sends passwords in clear"),
        ({"tls": "none", "listen": "127.0.0.1", "nodes": NODES}, "sends passwords in clear"),
        ({"tls": "none", "listen": "127.0.0.1", "identify": "certificate"}, "needs tls"),
        ({"nodes": NODES[:2]}, "3 or 5 nodes"),
        ({"nodes": [NODES[0]] * 3}, "3 or 5 nodes"),
    ],
)
def test_a_bad_description_is_refused_by_name(change: dict[str, object], message: str) -> None:
    """The message is one line that names the file, the setting and the rule."""
    with pytest.raises(Problem, match=rf"^site\.toml: {message}|^site\.toml: .*{message}"):
        parse({**LEAST, **change})


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    """A missing file, and one that is not TOML, are refused."""
    with pytest.raises(Problem, match=r"No such file.*hushmq broker init"):
        read(tmp_path / "site.toml")
    (tmp_path / "site.toml").write_text("cohort = ")
    with pytest.raises(Problem, match=r"site\.toml is not TOML"):
        read(tmp_path / "site.toml")


def test_the_certificate_names_every_way_to_the_broker() -> None:
    """The certificate names every host and node once."""
    nodes = (Node(name="a", host="broker.lan"), Node(name="b", host="b.lan"), Node(name="c", host="c.lan"))
    description = Description(cohort="home", hosts=("broker.lan", "x.lan"), nodes=nodes)
    assert description.certified_hosts == ["broker.lan", "x.lan", "b.lan", "c.lan"]
    assert description.urls == ["mqtts://broker.lan:8883", "mqtts://b.lan:8883", "mqtts://c.lan:8883"]
