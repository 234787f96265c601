"""The traps of paho that Connection avoids: each is first shown with paho alone, then shown to be absent.

Each pair of tests asks the same of both. When a test named `paho_…` fails, paho has changed, and the corresponding
care in broker/mqtt/link.py may no longer be needed.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from annotated_types import Le
from paho.mqtt.client import Client, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion

from hushmq.agent.agent_config import PublishSection
from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.broker.mqtt.link import back_off
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.provision.mosquitto import MosquittoServer
from tests.broker.plain import PATIENCE, Plain
from tests.broker.scripted import ScriptedBroker, wait_for

T = Topics("test")
BATCH = T.batch("wearable-1", "motion")


@pytest.fixture
def scripted() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as server:
        yield server


@pytest.fixture
def paho(scripted: ScriptedBroker) -> Iterator[Client]:
    """A bare paho client of the scripted broker, not yet connected."""
    client = Client(CallbackAPIVersion.VERSION2, client_id="bare", clean_session=False)
    client.reconnect_delay_set(1, 1)
    yield client
    client.drop_out_messages()  # or its thread never ends
    client.disconnect()
    client.loop_stop()


def connect(client: Client, server: ScriptedBroker) -> None:
    client.connect("127.0.0.1", server.port)
    client.loop_start()
    wait_for(client.is_connected, "the bare client")


@pytest.fixture
def ours(scripted: ScriptedBroker) -> Iterator[Connection]:
    """A Connection to the scripted broker, not yet started."""
    connection = Connection(endpoints=[scripted.endpoint], client_id="ours", window=5)
    yield connection
    connection.stop()


def start(connection: Connection) -> None:
    connection.start()
    assert connection.wait_connected(PATIENCE)


def test_paho_forgets_what_was_unacknowledged_when_it_ends(scripted: ScriptedBroker, paho: Client) -> None:
    """paho stores nothing on disk: the next process, with the same session, does not know the message in flight.

    Ours promises no more (broker/mqtt/connection.py): keeping a batch until it is counted is the outbox's work, and
    tests/agent/test_faults.py kills the agent at every step of it.
    """
    scripted.acknowledge = False
    connect(paho, scripted)
    paho.publish("a", b"on its way", qos=1)
    wait_for(lambda: scripted.published == [[b"on its way"]], "the message")
    paho.drop_out_messages()  # as the end of its process would
    paho.disconnect()
    paho.loop_stop()
    scripted.acknowledge = True
    heir = Client(CallbackAPIVersion.VERSION2, client_id="bare", clean_session=False)
    connect(heir, scripted)
    heir.publish("a", b"the heir's own", qos=1)
    wait_for(
        lambda: [b"the heir's own"] in scripted.published, "the heir's own message and nothing before it"
    )
    heir.disconnect()
    heir.loop_stop()


def test_paho_queues_what_it_reports_as_not_sent(scripted: ScriptedBroker, paho: Client) -> None:
    """publish returns rc=4 (no connection), yet the message is sent after the next connect."""
    assert paho.publish("a", b"stale", qos=1).rc == MQTTErrorCode.MQTT_ERR_NO_CONN
    connect(paho, scripted)
    wait_for(lambda: scripted.published == [[b"stale"]], "the stale message")


def test_ours_sends_nothing_that_it_refused(scripted: ScriptedBroker, ours: Connection) -> None:
    """A message whose publish raised Offline is never sent."""
    with pytest.raises(Offline):
        ours.publish("a", b"stale")
    start(ours)
    ours.publish("a", b"fresh")
    wait_for(lambda: scripted.published == [[b"fresh"]], "only the fresh message")


def test_paho_forgets_its_window_on_reconnect(scripted: ScriptedBroker, paho: Client) -> None:
    """Messages queued while offline are all sent at once, however small max_inflight is."""
    paho.max_inflight_messages_set(5)
    for n in range(50):
        paho.publish("a", b"%d" % n, qos=1)
    scripted.acknowledge = False
    connect(paho, scripted)
    wait_for(lambda: len(scripted.published[0]) > 5, "more than five unacknowledged messages")


def test_ours_keeps_its_window_on_reconnect(scripted: ScriptedBroker, ours: Connection) -> None:
    """On every connection, never more than `window` messages are unacknowledged."""
    scripted.acknowledge = False
    start(ours)
    for _ in range(3):
        assert ours.wait_connected(PATIENCE)
        for n in range(50):
            with suppress(Offline):
                ours.publish("a", b"%d" % n)
        wait_for(lambda: len(scripted.published[-1]) == 5, "five messages")
        scripted.drop_all()
        wait_for(lambda: not ours.connected, "the loss")
    assert [len(each) for each in scripted.published[:3]] == [5, 5, 5]


def test_paho_dies_of_a_callback_and_reports_a_connection(
    scripted: ScriptedBroker, paho: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception in on_publish ends the network thread, while is_connected() stays true."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def fail(*_: Any) -> None:
        raise ValueError

    paho.on_publish = fail
    others = threading.enumerate()
    connect(paho, scripted)
    (thread,) = (
        each
        for each in threading.enumerate()
        if each not in others and each.name.startswith("paho-mqtt-client")
    )
    paho.publish("a", b"", qos=1)
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert paho.is_connected()


def test_ours_lives_through_a_callback(scripted: ScriptedBroker, ours: Connection) -> None:
    """The exception is counted; the thread continues to send."""

    def fail() -> None:
        raise ValueError

    start(ours)
    ours.publish("a", b"1", on_acknowledged=fail)
    wait_for(lambda: ours.failures == 1, "the exception to be counted")
    ours.publish("a", b"2")
    wait_for(lambda: scripted.published == [[b"1", b"2"]], "the second message")
    assert ours.alive
    assert ours.connected


def test_paho_deadlocks_on_a_lock_shared_by_publish_and_on_publish(
    scripted: ScriptedBroker, paho: Client
) -> None:
    """on_publish holds paho's lock and waits for the caller's, while publish() under the caller's waits for paho's."""
    lock, inside, taken, outcome = threading.Lock(), threading.Event(), threading.Event(), list[bool]()

    def on_publish(*_: Any) -> None:
        if not outcome:
            inside.set()
            taken.wait(PATIENCE)
            outcome.append(lock.acquire(timeout=0.5))

    paho.on_publish = on_publish
    connect(paho, scripted)
    paho.publish("a", b"1", qos=1)
    assert inside.wait(PATIENCE)
    with lock:
        taken.set()
        paho.publish("a", b"2", qos=1)
    wait_for(lambda: bool(outcome), "the callback to give up")
    assert outcome == [False]


def test_ours_shares_no_lock_with_its_callbacks(scripted: ScriptedBroker, ours: Connection) -> None:
    """In the same situation publish() returns while the caller holds its lock, so that the callback can acquire it."""
    lock, inside, taken, outcome = threading.Lock(), threading.Event(), threading.Event(), list[bool]()

    def on_acknowledged() -> None:
        inside.set()
        taken.wait(PATIENCE)
        outcome.append(lock.acquire(timeout=PATIENCE))

    start(ours)
    ours.publish("a", b"1", on_acknowledged=on_acknowledged)
    assert inside.wait(PATIENCE)
    with lock:
        taken.set()
        ours.publish("a", b"2")
    wait_for(lambda: bool(outcome), "the callback to end")
    assert outcome == [True]


def test_paho_waits_in_vain_for_a_publish_from_a_callback(scripted: ScriptedBroker, paho: Client) -> None:
    """wait_for_publish in a callback waits for the thread that it blocks."""
    sent = list[MQTTMessageInfo]()

    def on_publish(*_: Any) -> None:
        if not sent:
            sent.append(paho.publish("a", b"2", qos=1))
            sent[0].wait_for_publish(0.3)
            outcome.append(sent[0].is_published())

    outcome = list[bool]()
    paho.on_publish = on_publish
    connect(paho, scripted)
    paho.publish("a", b"1", qos=1)
    wait_for(lambda: bool(outcome), "the callback to give up")
    assert outcome == [False]


def test_ours_need_not_be_waited_for(scripted: ScriptedBroker, ours: Connection) -> None:
    """A callback cannot wait: a message published from one is acknowledged by another callback."""
    done = threading.Event()
    start(ours)
    ours.publish("a", b"1", on_acknowledged=lambda: ours.publish("a", b"2", on_acknowledged=done.set))
    assert done.wait(PATIENCE)
    assert scripted.published == [[b"1", b"2"]]


@pytest.mark.slow
def test_paho_cannot_be_stopped_with_unacknowledged_messages(scripted: ScriptedBroker, paho: Client) -> None:
    """loop_stop blocks while a message is unacknowledged."""
    scripted.acknowledge = False
    connect(paho, scripted)
    paho.publish("a", b"", qos=1)
    stopper = threading.Thread(target=paho.loop_stop, daemon=True)
    stopper.start()
    stopper.join(1.5)  # its loop turns once a second
    assert stopper.is_alive()


def test_ours_stops_with_unacknowledged_messages(scripted: ScriptedBroker, ours: Connection) -> None:
    """stop() sends DISCONNECT and ends at once."""
    scripted.acknowledge = False
    start(ours)
    ours.publish("a", b"")
    begin = time.monotonic()
    ours.stop()
    assert time.monotonic() - begin < 1.0
    assert not ours.alive
    assert scripted.disconnects == 1


def test_paho_with_mqtt_5_keeps_no_session_by_default(mosquitto: MosquittoServer) -> None:
    """Without a session expiry interval, messages that arrive while the client is away are lost."""
    endpoint = mosquitto.endpoint("calibrator")
    received = list[bytes | bytearray]()
    for _ in range(2):
        client = Client(CallbackAPIVersion.VERSION2, client_id="bare", protocol=MQTTProtocolVersion.MQTTv5)
        client.username_pw_set(endpoint.username, endpoint.password)
        subscribed = threading.Event()
        client.on_message = lambda _client, _userdata, message: received.append(message.payload)
        client.on_subscribe = partial(_set, subscribed)
        client.connect(endpoint.host, endpoint.port, clean_start=False)
        client.loop_start()
        wait_for(client.is_connected, "the bare client")
        client.subscribe(T.all("z"), qos=1)
        assert subscribed.wait(PATIENCE)
        client.disconnect()
        client.loop_stop()
        with Plain(mosquitto.endpoint("wearable-1")) as writer:
            writer.publish(BATCH, b"while you were away")
    assert not received


def _set(event: threading.Event, *_: object) -> None:
    event.set()


def test_paho_takes_a_denied_publish_for_a_success(broker: BrokerProcess) -> None:
    """MQTT 3.1.1 cannot report a denied publish: is_published() becomes true, and nothing was published.

    Ours cannot do better, so the agent believes `seen` alone (tests/agent/test_faults.py, publishes denied).
    """
    with Plain(broker.endpoint("ops")) as ops, Plain(broker.endpoint("wearable-1")) as device:
        ops.subscribe(T.policy)
        info = device.client.publish(T.policy, b"not mine to write", qos=1)
        info.wait_for_publish(PATIENCE)
        assert info.is_published()
        ops.publish(T.policy, b"fence")
        ops.wait_payload(b"fence")
        assert ops.payloads() == [b"fence"]


def test_no_window_of_ours_is_large() -> None:
    """More than 100 unacknowledged messages reduce throughput (measured by evaluation/benchmarks/broker_speed.py)."""
    assert inspect.signature(Connection).parameters["window"].default <= 100
    allowed = [rule.le for rule in PublishSection.model_fields["window"].metadata if isinstance(rule, Le)]
    assert allowed
    assert max(allowed) <= 100


def test_the_back_off_is_jittered_doubles_and_ends() -> None:
    """Delays are random in [½, 1] of 0.2·2ⁿ, up to 30 s, so that clients do not reconnect in step, as paho's do."""
    for attempt in range(100):
        whole = min(30.0, 0.2 * 2**attempt)
        delays = [back_off(attempt) for _ in range(200)]
        assert all(whole / 2 <= delay <= whole for delay in delays)
        assert max(delays) - min(delays) > whole / 4
