"""The connection's promises, each tested on both brokers if a real one can show it, else on a scripted one."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import structlog

from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt import link
from hushmq.broker.mqtt.connection import Connection, Endpoint, Offline, Will
from hushmq.broker.provision.broker_process import BrokerProcess, free_port
from tests.broker.plain import PATIENCE, Plain
from tests.broker.scripted import Proxy, ScriptedBroker, wait_for
from tests.brokers import wait_until_saved

T = Topics("test")
BATCH = T.batch("wearable-1", "motion")

Open = Callable[..., Connection]


@pytest.fixture
def scripted() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as server:
        yield server


@pytest.fixture
def opened() -> Iterator[Open]:
    """Return a function that starts connections, which are stopped when the test ends."""
    made: list[Connection] = []

    def start(*endpoints: Endpoint, client_id: str = "me", **settings: Any) -> Connection:
        connection = Connection(endpoints=endpoints, client_id=client_id, **settings)
        made.append(connection)
        connection.start()
        return connection

    yield start
    for connection in made:
        connection.stop()


class Inbox:
    """Records messages, and waits for them."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, bytes, bool]] = []

    def __call__(self, topic: str, payload: bytes, retained: bool) -> None:
        self.messages.append((topic, payload, retained))

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, payload, _ in self.messages]

    def wait(self, payload: bytes) -> None:
        wait_for(lambda: payload in self.payloads, f"the payload {payload!r}")


def test_a_message_goes_through_and_is_acknowledged(broker: BrokerProcess, opened: Open) -> None:
    """A published message arrives with its topic and payload, not marked as retained, and is acknowledged once."""
    inbox, acknowledged = Inbox(), list[int]()
    reader = opened(
        broker.endpoint("calibrator"), client_id="c", subscriptions=[T.all("z")], on_message=inbox
    )
    writer = opened(broker.endpoint("wearable-1"), client_id="w")
    assert reader.wait_connected(PATIENCE)
    assert writer.wait_connected(PATIENCE)
    for n in range(40):
        writer.publish(BATCH, b"%d" % n, on_acknowledged=partial(acknowledged.append, n))
    inbox.wait(b"39")
    assert inbox.messages == [(BATCH, b"%d" % n, False) for n in range(40)]
    wait_for(lambda: len(acknowledged) == 40, "40 acknowledgements")
    assert (acknowledged, writer.in_flight) == (list(range(40)), 0)


def test_a_retained_message_is_marked_as_such(broker: BrokerProcess, opened: Open) -> None:
    """A late subscriber gets the retained message, marked as such, unlike a live one."""
    ops = opened(broker.endpoint("ops"), client_id="ops")
    assert ops.wait_connected(PATIENCE)
    done = threading.Event()
    ops.publish(T.policy, b"the policy", retain=True, on_acknowledged=done.set)
    assert done.wait(PATIENCE)
    inbox = Inbox()
    opened(broker.endpoint("wearable-1"), client_id="w", subscriptions=[T.policy], on_message=inbox)
    inbox.wait(b"the policy")
    assert inbox.messages == [(T.policy, b"the policy", True)]


def test_a_denied_publish_is_acknowledged_by_the_older_mqtt(nats: BrokerProcess, opened: Open) -> None:
    """MQTT 3.1.1 cannot refuse a publish: an acknowledgement proves nothing, only `seen` does."""
    device = opened(nats.endpoint("wearable-1"), client_id="w")
    assert device.wait_connected(PATIENCE)
    done = threading.Event()
    device.publish(T.policy, b"not mine to write", on_acknowledged=done.set)
    assert done.wait(PATIENCE)


def test_a_denied_publish_is_refused_by_the_newer_mqtt(mosquitto: BrokerProcess, opened: Open) -> None:
    """MQTT 5 refuses it with a reason: it is logged once, never acknowledged, and the next message goes through."""
    log = structlog.testing.CapturingLogger()
    device = opened(mosquitto.endpoint("wearable-1"), client_id="w", log=log)
    assert device.wait_connected(PATIENCE)
    denied, done = threading.Event(), threading.Event()
    for _ in range(2):
        device.publish(T.policy, b"not mine to write", on_acknowledged=denied.set)
    device.publish(T.status("wearable-1"), b"mine", on_acknowledged=done.set)
    assert done.wait(PATIENCE)
    assert not denied.is_set()
    assert device.in_flight == 0
    refused = [call for call in log.calls if call.args == ("publish_refused",)]
    assert [(call.kwargs["topic"], call.kwargs["reason"]) for call in refused] == [
        (T.policy, "not authorized")
    ]


def test_a_session_is_kept_while_its_owner_is_away(broker: BrokerProcess, opened: Open) -> None:
    """Messages published between two runs of the same client are delivered to the second run."""
    reader = opened(broker.endpoint("calibrator"), client_id="c", subscriptions=[T.all("z")])
    writer = opened(broker.endpoint("wearable-1"), client_id="w")
    assert reader.wait_connected(PATIENCE)
    assert writer.wait_connected(PATIENCE)
    reader.stop()
    done = threading.Event()
    writer.publish(BATCH, b"while you were away", on_acknowledged=done.set)
    assert done.wait(PATIENCE)
    inbox = Inbox()
    opened(broker.endpoint("calibrator"), client_id="c", subscriptions=[T.all("z")], on_message=inbox)
    inbox.wait(b"while you were away")


def test_sessions_and_retained_messages_survive_a_killed_broker(broker: BrokerProcess, opened: Open) -> None:
    """After kill -9 of the broker, acknowledged messages, queued for an absent session or retained, are still there."""
    reader = opened(broker.endpoint("calibrator"), client_id="c", subscriptions=[T.all("z"), T.policy])
    writer = opened(broker.endpoint("wearable-1"), client_id="w")
    ops = opened(broker.endpoint("ops"), client_id="ops")
    assert all(each.wait_connected(PATIENCE) for each in (reader, writer, ops))
    reader.stop()
    # The acknowledged message is stored: NATS writes before it acknowledges, Mosquitto within two seconds.
    for connection, topic, retain in ((writer, BATCH, False), (ops, T.policy, True)):
        done = threading.Event()
        connection.publish(topic, topic.encode(), retain=retain, on_acknowledged=done.set)
        assert done.wait(PATIENCE)
    wait_until_saved(broker)
    broker.kill()
    broker.start()
    inbox = Inbox()
    opened(
        broker.endpoint("calibrator"), client_id="c", subscriptions=[T.all("z"), T.policy], on_message=inbox
    )
    inbox.wait(BATCH.encode())
    inbox.wait(T.policy.encode())


def test_it_comes_back_after_the_broker_does(broker: BrokerProcess, opened: Open) -> None:
    """A killed broker is detected, publish raises Offline meanwhile, and works again after its restart."""
    changes = list[bool]()
    writer = opened(
        broker.endpoint("wearable-1"), client_id="w", subscriptions=[T.policy], on_change=changes.append
    )
    assert writer.wait_connected(PATIENCE)
    broker.kill()
    wait_for(lambda: not writer.connected, "the loss to be noticed")
    with pytest.raises(Offline, match="connection"):
        writer.publish(BATCH, b"lost")
    broker.start()
    assert writer.wait_connected(PATIENCE)
    writer.publish(BATCH, b"found")
    wait_for(lambda: changes == [True, False, True], "both changes to be reported")


def test_the_next_host_is_tried_when_one_is_down(broker: BrokerProcess, opened: Open) -> None:
    """Several addresses are tried in turn until one of them answers."""
    nobody = Endpoint("127.0.0.1", free_port("127.0.0.1"))
    writer = opened(nobody, nobody, broker.endpoint("wearable-1"), client_id="w")
    assert writer.wait_connected(PATIENCE)


def test_the_will_is_published_after_a_crash_and_not_after_a_stop(
    broker: BrokerProcess, opened: Open
) -> None:
    """The last will of a broken connection is published; that of a stopped one is not, and its last message
    arrives."""
    inbox = Inbox()
    calibrator = opened(
        broker.endpoint("calibrator"), client_id="c", subscriptions=[T.all("status")], on_message=inbox
    )
    assert calibrator.wait_connected(PATIENCE)
    with Proxy(broker.endpoint("wearable-1")) as proxy:
        direct = broker.endpoint("wearable-1")
        through = replace(direct, port=proxy.port)
        will = Will(T.status("wearable-1"), b"died")
        device = opened(through, client_id="w", will=will)
        assert device.wait_connected(PATIENCE)
        proxy.drop_all()
        inbox.wait(b"died")
        device.stop()
    inbox.messages.clear()
    device = opened(direct, client_id="w", will=will)
    assert device.wait_connected(PATIENCE)
    device.publish(T.status("wearable-1"), b"leaving", retain=True)
    device.stop()
    with Plain(direct) as last:  # a fence: a last will would have arrived before this message
        last.publish(T.status("wearable-1"), b"fence")
    inbox.wait(b"fence")
    assert inbox.payloads == [b"leaving", b"fence"]


def test_a_half_open_connection_is_noticed(broker: BrokerProcess, opened: Open) -> None:
    """A peer that discards everything without closing is left after the keep-alive, and connected to again later."""
    with Proxy(broker.endpoint("wearable-1")) as proxy:
        through = replace(broker.endpoint("wearable-1"), port=proxy.port)
        writer = opened(through, client_id="w", keepalive=1)
        assert writer.wait_connected(PATIENCE)
        proxy.silent = True
        wait_for(lambda: not writer.connected, "the silence to be noticed")
        assert "does not answer" in (writer.last_error or "")
        proxy.silent = False
        assert writer.wait_connected(PATIENCE)


def test_a_broker_that_stops_acknowledging_is_left(
    scripted: ScriptedBroker, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that answers pings but acknowledges no message is left, and connected to again."""
    monkeypatch.setattr(link, "ACKNOWLEDGE_TIMEOUT", 0.2)
    writer = opened(scripted.endpoint)
    assert writer.wait_connected(PATIENCE)
    scripted.acknowledge = False
    writer.publish("a", b"unheard")
    wait_for(lambda: len(scripted.connects) == 2, "a second connection")
    assert "acknowledge" in (writer.last_error or "acknowledge")


@pytest.mark.parametrize("silence", ["connack", "accept"])
def test_a_broker_that_does_not_answer_connect_is_left(
    scripted: ScriptedBroker, opened: Open, monkeypatch: pytest.MonkeyPatch, silence: str
) -> None:
    """A listener that does not answer CONNECT is left after a time-out, and tried again."""
    monkeypatch.setattr(link, "ANSWER_TIMEOUT", 0.2)
    scripted.connack = None
    writer = opened(scripted.endpoint)
    wait_for(lambda: len(scripted.connects) >= 2, "a second attempt")
    wait_for(lambda: "does not answer" in (writer.last_error or ""), "the reason")
    if silence == "accept":
        scripted.connack = 0
        assert writer.wait_connected(PATIENCE)


def test_a_refused_subscription_is_asked_for_again(scripted: ScriptedBroker, opened: Open) -> None:
    """After 0x80 in the SUBACK the connection is not usable, says why, and requests only the refused filter again."""
    scripted.subacks = [1, 0x80, 0x80]
    changes = list[bool]()
    reader = opened(scripted.endpoint, subscriptions=["a", "b/#"], on_change=changes.append)
    wait_for(lambda: "b/#" in (reader.last_error or ""), "the refusal")
    assert not reader.connected
    with pytest.raises(Offline, match="refuses the subscription b/#"):
        reader.publish("a", b"")
    assert reader.wait_connected(PATIENCE)
    assert scripted.subscribed == ["a", "b/#", "b/#", "b/#"]
    wait_for(lambda: changes == [True], "the change to be reported")
    assert reader.last_error is None


@pytest.mark.slow
def test_a_subscription_refused_again_and_again_is_tried_on_another_connection(
    scripted: ScriptedBroker, opened: Open
) -> None:
    """After three refusals the connection is closed, and the next address is tried if there is one."""
    scripted.subacks = [0x80] * 3
    with ScriptedBroker() as other:
        reader = opened(scripted.endpoint, other.endpoint, subscriptions=["a"])
        assert reader.wait_connected(PATIENCE)
        assert (len(scripted.connects), scripted.subscribed) == (1, ["a"] * 3)
        assert (len(other.connects), other.subscribed) == (1, ["a"])


@pytest.mark.slow
def test_a_thread_that_hangs_is_not_alive(
    scripted: ScriptedBroker, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`alive` is false when a callback never returns; not when one is slow, nor when the broker is silent."""
    monkeypatch.setattr("hushmq.broker.mqtt.connection.HUNG", 3.0)
    release = threading.Event()
    quiet = opened(scripted.endpoint)
    stuck = opened(scripted.endpoint, client_id="stuck", on_change=lambda _connected: release.wait(PATIENCE))
    assert quiet.wait_connected(PATIENCE)
    assert stuck.alive
    wait_for(lambda: not stuck.alive, "the thread to be found hanging")
    assert quiet.alive
    release.set()
    wait_for(lambda: stuck.alive, "the thread to come round again")


def test_what_is_granted_is_asked_for_again_where_nothing_may_be_missed(
    scripted: ScriptedBroker, opened: Open
) -> None:
    """All filters are requested exactly once more after the last is granted; the connection stays usable."""
    scripted.subacks = [1, 0x80]
    changes = list[bool]()
    reader = opened(
        scripted.endpoint, subscriptions=["a", "b"], subscribe_twice=True, on_change=changes.append
    )
    assert reader.wait_connected(PATIENCE)
    wait_for(lambda: scripted.subscribed == ["a", "b", "b", "a", "b"], "the second asking")
    reader.publish("a", b"")
    wait_for(lambda: reader.in_flight == 0, "the acknowledgement")
    assert (scripted.subscribed, changes) == (["a", "b", "b", "a", "b"], [True])


def test_a_message_retained_while_we_subscribe_is_not_missed(broker: BrokerProcess, opened: Open) -> None:
    """A retained message published at any moment around the subscription arrives; with one request NATS misses some."""
    ops = opened(broker.endpoint("ops"), client_id="ops")
    assert ops.wait_connected(PATIENCE)
    for n in range(15):
        inbox, payload = Inbox(), b"%d" % n
        reader = opened(
            broker.endpoint("wearable-1"),
            client_id=f"w{n}",
            subscriptions=[T.policy, T.noise("a"), T.noise("b")],
            on_message=inbox,
            subscribe_twice=True,
        )
        time.sleep(0.001 * n)
        ops.publish(T.policy, payload, retain=True)
        assert reader.wait_connected(PATIENCE)
        inbox.wait(payload)
        reader.stop()


def test_a_forbidden_subscription_never_counts_as_connected(nats: BrokerProcess, opened: Open) -> None:
    """NATS refuses a filter that the identity may not read; the connection reports it and is not usable."""
    reader = opened(nats.endpoint("subscriber"), client_id="s", subscriptions=[T.all("release"), T.all("z")])
    wait_for(lambda: reader.last_error is not None, "the refusal")
    assert (
        reader.last_error == f"{nats.endpoint('ops').url}: the broker refuses the subscription {T.all('z')}"
    )
    assert not reader.connected


def test_the_window_is_never_exceeded(scripted: ScriptedBroker, opened: Open) -> None:
    """Publishing beyond the in-flight window raises Offline; acknowledgements free places in it."""
    writer = opened(scripted.endpoint, window=3)
    assert writer.wait_connected(PATIENCE)
    scripted.acknowledge = False
    for n in range(3):
        writer.publish("a", b"%d" % n)
    with pytest.raises(Offline, match="3 messages await their acknowledgement"):
        writer.publish("a", b"3")
    wait_for(lambda: len(scripted.published[0]) == 3, "three messages")
    scripted.drop_all()
    scripted.acknowledge = True
    wait_for(lambda: len(scripted.connects) == 2, "a second connection")
    assert writer.wait_connected(PATIENCE)
    for n in range(4, 10):
        wait_for(lambda: writer.in_flight < 3, "room in the window")
        writer.publish("a", b"%d" % n)
    wait_for(lambda: writer.in_flight == 0, "the acknowledgements")
    assert scripted.published == [[b"0", b"1", b"2"], [b"%d" % n for n in range(4, 10)]]


def test_nothing_is_sent_again_behind_the_callers_back(scripted: ScriptedBroker, opened: Open) -> None:
    """Messages unacknowledged when the connection broke are neither sent again nor acknowledged later."""
    acknowledged = list[str]()
    writer = opened(scripted.endpoint)
    assert writer.wait_connected(PATIENCE)
    scripted.acknowledge = False
    writer.publish("a", b"old", on_acknowledged=partial(acknowledged.append, "old"))
    wait_for(lambda: scripted.published[0] == [b"old"], "the first message")
    scripted.acknowledge = True
    scripted.drop_all()
    wait_for(lambda: not writer.connected, "the loss")
    assert writer.wait_connected(PATIENCE)
    writer.publish("a", b"new", on_acknowledged=partial(acknowledged.append, "new"))
    wait_for(lambda: "new" in acknowledged, "the acknowledgement")
    assert (scripted.published[1], acknowledged) == ([b"new"], ["new"])


def test_a_callback_may_raise_without_harm(
    scripted: ScriptedBroker, broker: BrokerProcess, opened: Open
) -> None:
    """Every callback raises once: the thread continues, the next message arrives, the log names only the class."""
    with structlog.testing.capture_logs() as logs:
        log = structlog.get_logger()
        raised = list[bytes]()
        inbox = Inbox()

        def fail(*arguments: object) -> None:
            raise ValueError("secret state 1")

        def once(topic: str, payload: bytes, retained: bool) -> None:
            if not raised:
                raised.append(payload)
                fail()
            inbox(topic, payload, retained)

        device = opened(
            broker.endpoint("calibrator"),
            client_id="c",
            subscriptions=[T.all("seen")],
            on_message=once,
            on_change=fail,
            log=log,
        )
        assert device.wait_connected(PATIENCE)
        device.publish(T.seen("wearable-1"), b"first", on_acknowledged=partial(fail))
        wait_for(lambda: raised == [b"first"], "the first message")
        device.publish(T.seen("wearable-1"), b"second")
        inbox.wait(b"second")
        wait_for(lambda: device.failures == 3, "three failures")
        assert device.alive
    failed = [entry for entry in logs if entry["event"] == "callback_failed"]
    assert [entry["error"] for entry in failed] == ["ValueError"] * 3
    assert "secret" not in str(logs)


def test_callbacks_may_publish(broker: BrokerProcess, opened: Open) -> None:
    """A message sent from within a callback is sent and acknowledged like any other."""
    inbox = Inbox()

    def answer(topic: str, payload: bytes, retained: bool) -> None:
        inbox(topic, payload, retained)
        if payload == b"question":
            both.publish(T.seen("wearable-1"), b"answer", on_acknowledged=again)

    def again() -> None:
        both.publish(T.seen("wearable-1"), b"last word")

    both = opened(
        broker.endpoint("calibrator"), client_id="c", subscriptions=[T.all("seen")], on_message=answer
    )
    assert both.wait_connected(PATIENCE)
    both.publish(T.seen("wearable-1"), b"question")
    inbox.wait(b"last word")
    assert sorted(inbox.payloads) == [b"answer", b"last word", b"question"]


def test_stop_from_a_callback_ends_the_thread(scripted: ScriptedBroker, opened: Open) -> None:
    """The network thread may stop its own connection."""
    writer = opened(scripted.endpoint)
    assert writer.wait_connected(PATIENCE)
    writer.publish("a", b"", on_acknowledged=writer.stop)
    wait_for(lambda: not writer.alive, "the thread to end")
    wait_for(lambda: scripted.disconnects == 1, "DISCONNECT")


@pytest.fixture
def unroutable() -> Iterator[Endpoint]:
    """An address that ignores connection attempts: a listener whose backlog is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener, ExitStack() as stack:
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield Endpoint(*listener.getsockname())


def test_stop_never_takes_longer_than_it_may(
    scripted: ScriptedBroker,
    nats: BrokerProcess,
    unroutable: Endpoint,
    opened: Open,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """stop returns in every state: never started, connecting, backing off, unacknowledged, blocked on a full socket."""
    monkeypatch.setattr(link, "CONNECT_TIMEOUT", 1.5)
    never = Connection(endpoints=[scripted.endpoint], client_id="never")
    connecting = opened(unroutable)
    waiting = opened(Endpoint("127.0.0.1", free_port("127.0.0.1")))
    unacknowledged = opened(scripted.endpoint)
    proxy = Proxy(nats.endpoint("wearable-1"))
    clogged = opened(replace(nats.endpoint("wearable-1"), port=proxy.port), client_id="w")
    with proxy:
        assert unacknowledged.wait_connected(PATIENCE)
        assert clogged.wait_connected(PATIENCE)
        wait_for(lambda: waiting.last_error is not None, "the refusal")
        scripted.acknowledge = False
        unacknowledged.publish("a", b"")
        proxy.silent = True
        for _ in range(50):
            clogged.publish(BATCH, bytes(1_000_000))
        for connection in (never, connecting, waiting, unacknowledged, clogged):
            begin = time.monotonic()
            connection.stop(timeout=0.3)
            assert time.monotonic() - begin < 0.8
            assert not connection.connected


def test_what_was_handed_over_before_stop_is_sent(broker: BrokerProcess, opened: Open) -> None:
    """stop() sends the messages that publish() accepted."""
    inbox = Inbox()
    reader = opened(
        broker.endpoint("calibrator"), client_id="c", subscriptions=[T.all("z")], on_message=inbox
    )
    writer = opened(broker.endpoint("wearable-1"), client_id="w")
    assert reader.wait_connected(PATIENCE)
    assert writer.wait_connected(PATIENCE)
    for n in range(50):
        writer.publish(BATCH, b"%d" % n)
    writer.stop()
    inbox.wait(b"49")
    assert len(inbox.messages) == 50


def test_two_of_the_same_name_do_not_fight_in_a_hot_loop(broker: BrokerProcess, opened: Open) -> None:
    """Two clients with one client id disconnect each other; both back off instead of reconnecting at once."""
    changes = list[bool]()
    for _ in range(2):
        opened(broker.endpoint("wearable-1"), client_id="twin", on_change=changes.append)
    wait_for(lambda: len(changes) >= 5, "a few rounds of the fight")
    begin, so_far = time.monotonic(), len(changes)
    time.sleep(1.0)  # a rate is measured over this time
    assert (len(changes) - so_far) / (time.monotonic() - begin) < 40


TWIN = re.compile(r"another client (has connected with|seems to use) the name twin(,|$)")


def unusable(log: structlog.testing.CapturingLogger) -> list[str]:
    return [call.kwargs["error"] for call in log.calls if call.args == ("broker_unusable",)]


def test_two_of_the_same_name_are_told_so(broker: BrokerProcess, opened: Open) -> None:
    """Both say that somebody has their name: for sure with MQTT 5, as a guess with 3.1.1."""
    logs = [structlog.testing.CapturingLogger() for _ in range(2)]
    for log in logs:
        opened(broker.endpoint("wearable-1"), client_id="twin", log=log)
    told = lambda: all(any(map(TWIN.search, unusable(log))) for log in logs)  # noqa: E731
    wait_for(told, "a word about the twin", patience=6 * PATIENCE)  # NATS makes the two wait for each other


@pytest.mark.parametrize("away", [True, False])
def test_a_broker_that_goes_away_is_no_twin(scripted: ScriptedBroker, opened: Open, away: bool) -> None:
    """Three connections that it closes make a twin likely, unless it is seen to be away in between."""
    log = structlog.testing.CapturingLogger()
    client = opened(scripted.endpoint, client_id="twin", log=log)
    for _ in range(3):
        assert client.wait_connected(PATIENCE)
        scripted.connack = 3 if away else 0  # 3: the server is unavailable
        told = len(unusable(log)) + 1 + away
        scripted.drop_all()
        wait_for(lambda told=told: len(unusable(log)) >= told, "the end of the connection")
        scripted.connack = 0
    assert any(map(TWIN.search, unusable(log))) is not away


def test_someone_else_cannot_guess_the_client_id() -> None:
    """The client id is derived from the identity's secret: stable for its owner, and different for every other one."""
    mine, other = (Endpoint("h", 1, username="a", password=secret) for secret in ("p", "q"))
    assert mine.secret_client_id("calibrator") == mine.secret_client_id("calibrator")
    assert mine.secret_client_id("calibrator").startswith("calibrator-")
    assert mine.secret_client_id("calibrator") != other.secret_client_id("calibrator")
    assert Endpoint("h", 1).secret_client_id("calibrator") == "calibrator"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "it does not support MQTT 3.1.1"),
        (2, "client identifier"),
        (3, "server unavailable"),
        (4, "bad user name or password"),
        (5, "not authorized"),
    ],
)
def test_a_refusal_is_reported_in_words(
    scripted: ScriptedBroker, opened: Open, code: int, words: str
) -> None:
    """Every CONNACK code has its own text in last_error, with the address."""
    scripted.connack = code
    writer = opened(scripted.endpoint)
    wait_for(lambda: words in (writer.last_error or ""), words)
    assert (writer.last_error or "").startswith(f"mqtt://127.0.0.1:{scripted.port}: the broker refuses: ")
    assert writer.alive


@pytest.mark.parametrize(
    ("host", "words"), [("127.0.0.1", "connection refused"), ("no-such-host.invalid", "not known|resolution")]
)
def test_an_unreachable_broker_is_reported_in_words(opened: Open, host: str, words: str) -> None:
    """The operating system's error for an unreachable address is in last_error."""
    writer = opened(Endpoint(host, free_port("127.0.0.1")))
    wait_for(lambda: writer.last_error is not None, "an error")
    with pytest.raises(Offline, match=words):
        writer.publish("a", b"")


@pytest.mark.parametrize("topic", ["", "a/+", "a/#", "a\0"])
def test_a_wildcard_is_no_topic_to_publish_to(opened: Open, scripted: ScriptedBroker, topic: str) -> None:
    """An invalid topic raises in the caller, not on the network thread."""
    writer = opened(scripted.endpoint)
    with pytest.raises(ValueError, match="not a topic to publish to"):
        writer.publish(topic, b"")


def test_messages_that_wait_to_be_read_together_all_come(broker: BrokerProcess, opened: Open) -> None:
    """A reader that collects hears every message, and what it publishes itself does not wait with them."""
    inbox, done = Inbox(), threading.Event()
    reader = opened(
        broker.endpoint("calibrator"),
        client_id="c",
        subscriptions=[T.all("z")],
        on_message=inbox,
        collect_s=1.0,
    )
    writer = opened(broker.endpoint("wearable-1"), client_id="w")
    assert reader.wait_connected(PATIENCE)
    assert writer.wait_connected(PATIENCE)
    writer.publish(BATCH, b"first")
    inbox.wait(b"first")
    for number in range(30):
        writer.publish(BATCH, b"%d" % number)
    reader.publish(T.seen("wearable-1"), b"answer", on_acknowledged=done.set)
    assert done.wait(PATIENCE)
    inbox.wait(b"29")
    assert [payload for _, payload, _ in inbox.messages] == [b"first", *(b"%d" % n for n in range(30))]
