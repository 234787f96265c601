"""Generated configurations, tested on brokers that run with the files as written.

Four of them: NATS and Mosquitto, identities proven by password and by certificate, always with TLS.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.mqtt.endpoint import Endpoint, Tls
from hushmq.broker.provision import mosquitto, nats
from hushmq.broker.provision.authority import Authority
from hushmq.broker.provision.broker_process import BrokerProcess, free_port
from hushmq.broker.provision.generate import BrokerName, generate
from hushmq.broker.provision.site_description import Description
from hushmq.broker.provision.site_folder import SiteFolder
from tests.broker import matrix
from tests.broker.plain import PATIENCE, Plain
from tests.broker.scripted import wait_for
from tests.brokers import require_mosquitto, wait_until_saved

T = Topics("test")
BATCH = T.batch("wearable-1", "motion")
RELEASE = T.release("motion", "hour", "cohort")


class Generated(BrokerProcess):
    """A broker that runs with the files of `generate`, with nothing added except the user that Mosquitto runs as."""

    def __init__(self, kind: BrokerName, folder: SiteFolder, out: Path) -> None:
        self.kind: BrokerName = kind
        self.site_folder = folder
        like = nats.NatsServer if kind == "nats" else mosquitto.MosquittoServer
        self.ready, self.reloaded = like.ready, like.reloaded  # type: ignore[misc]  # one class for both
        description = folder.description
        super().__init__(folder.site(), out, host="127.0.0.1", port=description.port, tls=folder.server_tls())

    def command(self) -> list[str]:
        generate(self.kind, self.site_folder, self.folder)
        file = self.folder / f"{self.kind}.conf"
        if self.kind == "mosquitto" and os.geteuid() == 0:
            with file.open("a") as text:
                text.write("user root\n")
        module = nats if self.kind == "nats" else mosquitto
        return [str(module.executable()), "-c", str(file)]

    def take_over(self) -> None:
        """Generate the configuration again and reload, as an administrator does after add-device or revoke."""
        self.site_folder = SiteFolder(self.site_folder.path)
        self.reload(self.site_folder.site())


@pytest.fixture(params=["nats", "mosquitto"])
def kind(request: pytest.FixtureRequest) -> BrokerName:
    found: BrokerName = request.param
    if found == "mosquitto":
        require_mosquitto()
    return found


@pytest.fixture(params=["password", "certificate"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> SiteFolder:
    return SiteFolder.create(
        tmp_path / "site",
        Description(
            cohort="test",
            hosts=("127.0.0.1", "localhost"),
            listen="127.0.0.1",
            port=free_port("127.0.0.1"),
            identify=request.param,
            ops=("ops", "witness"),
            devices=("wearable-1", "wearable-2"),
            consoles=("console",),
            home_assistants=("home-assistant",),
        ),
    )


@pytest.fixture
def server(kind: BrokerName, folder: SiteFolder, tmp_path: Path) -> Iterator[Generated]:
    with Generated(kind, folder, tmp_path / "generated") as running:
        yield running


def by_certificate(server: Generated) -> bool:
    return server.site_folder.description.identify == "certificate"


def refusal(endpoint: Endpoint) -> str:
    """Return why a connection is refused."""
    connection = Connection(endpoints=[endpoint], client_id="x")
    connection.start()
    try:
        wait_for(lambda: connection.connected or connection.last_error is not None, "an answer")
        assert not connection.connected
        return connection.last_error or ""
    finally:
        connection.stop()


@pytest.mark.slow
def test_every_role_against_every_topic(
    kind: BrokerName, folder: SiteFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every role reads and writes exactly what the table in matrix.py allows, also with wildcards."""
    matrix.allow_witness(monkeypatch)
    with Generated(kind, folder, tmp_path / "generated") as server:
        matrix.check_writes(server.endpoint)
        matrix.check_reads(server.endpoint)
        matrix.check_wildcards(server.endpoint)


def test_our_connection_goes_through_tls(server: Generated) -> None:
    """Messages larger than one TLS record arrive complete, in both directions."""
    received = list[bytes]()
    reader = Connection(
        endpoints=[server.endpoint("calibrator")],
        client_id="c",
        subscriptions=[T.all("z")],
        on_message=lambda _topic, payload, _retained: received.append(payload),
    )
    writer = Connection(endpoints=[server.endpoint("wearable-1")], client_id="w")
    for each in (reader, writer):
        each.start()
        assert each.wait_connected(PATIENCE), each.last_error
    sent = [bytes([n]) * 100_000 for n in range(30)]
    for payload in sent:
        writer.publish(BATCH, payload)
    wait_for(lambda: len(received) == 30, "30 messages")
    assert received == sent
    for each in (reader, writer):
        each.stop()


def test_a_client_without_tls_is_refused(server: Generated) -> None:
    """A client that uses MQTT without TLS on the TLS port is disconnected, whatever its password."""
    assert refusal(replace(server.endpoint("ops"), tls=None))


@pytest.mark.parametrize("folder", ["password"], indirect=True)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_tls_is_refused(server: Generated) -> None:
    """TLS 1.1 is refused; the same client with TLS 1.2 completes the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as plain,
        context.wrap_socket(plain) as wrapped,
    ):
        assert wrapped.version() == "TLSv1.2"
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with (
        pytest.raises(ssl.SSLError),
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as plain,
        context.wrap_socket(plain),
    ):
        pass


def test_a_broker_of_another_authority_is_not_trusted(server: Generated, tmp_path: Path) -> None:
    """The client refuses a certificate that its authority has not signed, before it sends a password."""
    stranger = Authority.create(tmp_path / "stranger")
    assert server.tls is not None
    endpoint = server.endpoint("ops")
    assert endpoint.tls is not None
    untrusting = replace(endpoint, tls=replace(endpoint.tls, ca=stranger.certificate))
    assert "the broker's certificate is not trusted" in refusal(untrusting)


@pytest.mark.parametrize(
    ("hosts", "days", "words"), [(["127.0.0.1"], -1, "expired"), (["elsewhere"], 1, "mismatch")]
)
def test_a_bad_broker_certificate_is_refused(
    kind: BrokerName,
    folder: SiteFolder,
    tmp_path: Path,
    hosts: list[str],
    days: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client refuses a certificate that is expired or for another host."""
    monkeypatch.setattr(Authority, "serves", lambda *_: True)  # otherwise it would be replaced by a valid one
    folder.authority.issue_server(hosts, days=days)
    with Generated(kind, folder, tmp_path / "generated") as server:
        assert words in refusal(server.endpoint("ops"))


def test_who_cannot_prove_it_is_not_let_in(server: Generated, tmp_path: Path) -> None:
    """Refused passwords: wrong, another identity's, none. Refused certificates: none, expired, of another authority,
    of the right authority but for an unknown identity."""
    ca = Tls(server.site_folder.authority.certificate)
    at = Endpoint("127.0.0.1", server.port, tls=ca)
    if not by_certificate(server):
        theirs = server.site.identity("wearable-2").password
        for name, password in (
            ("wearable-1", "wrong"),
            ("wearable-1", theirs),
            ("wearable-1", None),
            (None, None),
        ):
            assert refusal(replace(at, username=name, password=password)).endswith("refuses: not authorized")
        return
    assert refusal(at)
    assert refusal(replace(at, username="ops", password="x"))  # noqa: S106  # a password that is not needed
    expired = Authority.load(server.site_folder.authority.folder)
    expired.issue_client("wearable-2", days=-1)
    server.take_over()  # so that its expiry is the only reason to refuse it
    assert refusal(server.endpoint("wearable-2"))
    stranger = Authority.create(tmp_path / "stranger")
    stranger.issue_client("wearable-1")
    certificate, key = stranger.files("wearable-1")
    assert refusal(replace(at, tls=replace(ca, certificate=certificate, key=key)))


@pytest.mark.parametrize("folder", ["certificate"], indirect=True)
def test_a_certificate_for_an_unknown_name_grants_nothing(server: Generated) -> None:
    """A certificate of the authority for a name not in the site is refused (NATS) or has no rights (Mosquitto)."""
    authority = server.site_folder.authority
    authority.issue_client("nobody")
    certificate, key = authority.files("nobody")
    endpoint = replace(server.endpoint("ops"), tls=Tls(authority.certificate, certificate, key))
    if server.kind == "nats":
        assert "not authorized" in refusal(endpoint)
        return
    with Plain(server.endpoint("ops")) as ops, Plain(server.endpoint("ops")) as reader:
        ops.subscribe("hush/1/test/#")
        with Plain(endpoint) as nobody:
            nobody.subscribe("#", T.policy)
            nobody.publish(T.policy, b"from nobody", retain=True)
            reader.publish(T.policy, b"fence", retain=True)
            ops.wait_payload(b"fence")
        assert ops.payloads() == [b"fence"]
        assert nobody.received == []


@pytest.mark.parametrize("folder", ["certificate"], indirect=True)
def test_a_certificate_determines_the_identity_whatever_the_user_name(server: Generated) -> None:
    """A device that gives ops as its user name keeps its own rights, or is refused."""
    endpoint = replace(server.endpoint("wearable-1"), username="ops", password="x")  # noqa: S106  # not checked
    if server.kind == "nats":
        assert "not authorized" in refusal(endpoint)
        return
    with Plain(server.endpoint("ops")) as ops, Plain(endpoint) as device:
        ops.subscribe("hush/1/test/#")
        device.publish(T.policy, b"as ops")
        device.publish(T.status("wearable-1"), b"as itself")
        ops.wait_payload(b"as itself")
        assert ops.payloads() == [b"as itself"]


def test_another_identitys_session_cannot_be_taken_over(server: Generated) -> None:
    """A client with the calibrator's client id does not get its queued messages; the calibrator does."""
    received = list[bytes]()
    for on_message in (None, lambda _topic, payload, _retained: received.append(payload)):
        calibrator = Connection(
            endpoints=[server.endpoint("calibrator")],
            client_id="calibrator",
            subscriptions=[T.all("z")],
            on_message=on_message,
        )
        calibrator.start()
        assert calibrator.wait_connected(PATIENCE)
        if on_message is not None:
            break
        calibrator.stop()
        with Plain(server.endpoint("wearable-1")) as device:
            device.publish(BATCH, b"for the calibrator")
        with Plain(server.endpoint("wearable-2"), "calibrator", keep_session=True) as thief:
            thief.subscribe(T.policy)
            with Plain(server.endpoint("ops")) as ops:
                ops.publish(T.policy, b"fence")
            thief.wait_payload(b"fence")
            assert thief.payloads() == [b"fence"]
    wait_for(lambda: received == [b"for the calibrator"], "what was for the calibrator")
    calibrator.stop()


def test_a_new_device_gets_in_and_a_revoked_one_is_thrown_out(server: Generated, tmp_path: Path) -> None:
    """After a reload, an added device connects with its credentials; a revoked one is disconnected for good."""
    folder = SiteFolder(server.site_folder.path)
    old = Connection(endpoints=[server.endpoint("wearable-1")], client_id="old", subscriptions=[T.policy])
    old.start()
    assert old.wait_connected(PATIENCE)
    # A copy of the secret, as a stolen device has it:
    stolen = server.endpoint("wearable-1")
    if stolen.tls is not None and stolen.tls.certificate is not None and stolen.tls.key is not None:
        for file in (stolen.tls.certificate, stolen.tls.key):
            shutil.copyfile(file, tmp_path / file.name)
        stolen = replace(
            stolen, tls=Tls(stolen.tls.ca, tmp_path / "wearable-1.pem", tmp_path / "wearable-1.key")
        )
    folder.add("device", "wearable-3")
    folder.revoke("wearable-1")
    server.take_over()
    with Plain(server.endpoint("wearable-3")) as new:
        assert new.subscribe(T.policy) == [1]
    if server.kind == "mosquitto" and by_certificate(server):
        # Mosquitto reads the revocation list only at start.
        server.stop()
        server.start()
    wait_for(lambda: not old.connected, "the revoked device to be thrown out")
    old.stop()
    assert refusal(stolen)


def test_a_revoked_right_ends_retained_and_queued_messages(server: Generated) -> None:
    """A stored session delivers nothing that its owner may no longer read."""
    folder = SiteFolder(server.site_folder.path)
    folder.add("ops", "turncoat")
    server.take_over()
    with Plain(server.endpoint("turncoat"), "turncoat", keep_session=True) as before:
        assert before.subscribe("hush/1/test/#") == [1]
    with Plain(server.endpoint("wearable-1")) as device, Plain(server.endpoint("ops")) as ops:
        device.publish(BATCH, b"queued for the session")
        ops.publish(T.policy, b"retained", retain=True)
    descriptions = folder.description.with_names("ops", ("ops", "witness"))
    folder.change(descriptions.with_names("subscriber", ("subscriber", "turncoat")))
    server.take_over()
    with (
        Plain(server.endpoint("turncoat"), "turncoat", keep_session=True) as after,
        Plain(server.endpoint("calibrator")) as calibrator,
    ):
        after.subscribe("hush/1/test/#")
        after.subscribe(T.policy)
        assert after.subscribe(T.all("release")) == [1]
        calibrator.publish(RELEASE, b"release")
        after.wait_payload(b"release")
        assert set(after.payloads()) == {b"release"}


@pytest.mark.parametrize("folder", ["certificate"], indirect=True)
def test_a_stolen_certificate_stays_worthless_when_its_name_returns(
    server: Generated, tmp_path: Path
) -> None:
    """After revoke and add-device of the same name, the new certificate is accepted and the old one refused."""
    folder = SiteFolder(server.site_folder.path)
    for file in folder.authority.files("wearable-1"):
        shutil.copyfile(file, tmp_path / file.name)
    folder.revoke("wearable-1")
    folder.add("device", "wearable-1")
    server.take_over()
    if server.kind == "mosquitto":
        server.stop()  # it reads the revocation list only at start
        server.start()
    with Plain(server.endpoint("wearable-1")) as device:
        assert device.subscribe(T.policy) == [1]
    old = Tls(folder.authority.certificate, tmp_path / "wearable-1.pem", tmp_path / "wearable-1.key")
    assert refusal(replace(server.endpoint("wearable-1"), tls=old))


@pytest.mark.parametrize("folder", ["password"], indirect=True)
@pytest.mark.parametrize("kind", ["nats"], indirect=True)
def test_a_full_queue_loses_nothing_that_was_acknowledged(server: Generated) -> None:
    """Beyond queue_mb NATS acknowledges nothing more; after a restart with a higher limit nothing is lost."""
    folder = SiteFolder(server.site_folder.path)
    server.stop()
    folder.change(folder.description.model_copy(update={"queue_mb": 16}))
    server.site_folder = folder
    server.start()
    received, acknowledged = set[bytes](), set[bytes]()

    def calibrator() -> Connection:
        connection = Connection(
            endpoints=[server.endpoint("calibrator")],
            client_id="c",
            subscriptions=[T.all("z")],
            on_message=lambda _topic, payload, _retained: received.add(payload[:4]),
        )
        connection.start()
        assert connection.wait_connected(PATIENCE), connection.last_error
        return connection

    calibrator().stop()
    changes = list[bool]()
    device = Connection(endpoints=[server.endpoint("wearable-1")], client_id="w", on_change=changes.append)
    device.start()
    assert device.wait_connected(PATIENCE)
    for n in range(200):
        wait_for(lambda: device.in_flight < 5 or False in changes, "room in the window")
        if False in changes:
            break
        name = b"%04d" % n
        device.publish(BATCH, name + bytes(200_000), on_acknowledged=partial(acknowledged.add, name))
    assert 10 < len(acknowledged) < 100
    device.stop()
    server.kill()
    folder.change(folder.description.model_copy(update={"queue_mb": 256}))
    server.start()
    reader = calibrator()
    wait_for(lambda: acknowledged <= received, "all that was acknowledged")
    reader.stop()


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["password"], indirect=True)
def test_acknowledged_messages_survive_kill_and_no_queue_overflows(server: Generated) -> None:
    """1,100 messages for an absent session (more than Mosquitto's default queue), then kill -9: all are there."""
    count = 1100
    reader = Connection(endpoints=[server.endpoint("calibrator")], client_id="c", subscriptions=[T.all("z")])
    reader.start()
    assert reader.wait_connected(PATIENCE)
    reader.stop()
    acknowledged = threading.Semaphore(0)
    writer = Connection(endpoints=[server.endpoint("wearable-1")], client_id="w")
    writer.start()
    assert writer.wait_connected(PATIENCE)
    for n in range(count):
        wait_for(lambda: writer.in_flight < 50, "room in the window")
        writer.publish(BATCH, b"%d" % n, on_acknowledged=acknowledged.release)
    for _ in range(count):
        assert acknowledged.acquire(timeout=PATIENCE)
    writer.stop()
    wait_until_saved(server)
    server.kill()
    server.start()
    received = set[int]()
    reader = Connection(
        endpoints=[server.endpoint("calibrator")],
        client_id="c",
        subscriptions=[T.all("z")],
        on_message=lambda _topic, payload, _retained: received.add(int(payload)),
    )
    reader.start()
    wait_for(lambda: len(received) == count, "all of the messages")
    reader.stop()
