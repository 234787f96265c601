"""Subscriptions that are added to a connection and dropped again while it is in use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Connection, Endpoint
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.broker.plain import PATIENCE
from tests.broker.scripted import Proxy, ScriptedBroker, wait_for

T = Topics("test")


@contextmanager
def connected(endpoint: Endpoint, **settings: Any) -> Iterator[Connection]:
    """A connection that is in use."""
    connection = Connection(endpoints=[endpoint], **({"client_id": "me", "keep_session": False} | settings))
    connection.start()
    try:
        assert connection.wait_connected(PATIENCE)
        yield connection
    finally:
        connection.stop()


def test_what_is_added_is_heard_and_what_is_dropped_is_not(broker: BrokerProcess) -> None:
    """An added filter brings what is retained and what comes; a dropped one brings nothing more; others stay."""
    heard: list[tuple[str, bytes]] = []
    noise, release = T.noise("motion"), T.release("motion", "day", "cohort")
    with (
        connected(broker.endpoint("calibrator"), client_id="writer") as writer,
        connected(
            broker.endpoint("calibrator"),
            subscriptions=[T.policy],
            subscribe_twice=True,
            on_message=lambda topic, payload, _retained: heard.append((topic, payload)),
        ) as reader,
    ):
        writer.publish(noise, b"retained", retain=True)
        wait_for(lambda: writer.in_flight == 0, "the acknowledgement")
        added = [T.all("noise"), T.all("release")]
        assert not reader.hears(added)
        reader.subscribe(added)
        wait_for(lambda: reader.hears(added), "the subscriptions")
        wait_for(lambda: (noise, b"retained") in heard, "what is retained")
        reader.unsubscribe([T.all("noise")])
        assert not reader.hears(added)
        reader.publish(release, b"mine")  # a PUBACK after the UNSUBSCRIBE: the broker has taken it up
        wait_for(lambda: (release, b"mine") in heard and reader.in_flight == 0, "what comes")
        writer.publish(noise, b"dropped")
        writer.publish(release, b"after")
        wait_for(lambda: (release, b"after") in heard, "what comes on the other")
        assert (noise, b"dropped") not in heard


def test_what_is_added_is_asked_for_again_after_a_break(broker: BrokerProcess) -> None:
    """After a break no filter counts as heard until the broker has granted it again; dropped ones stay dropped."""
    heard: list[bytes] = []
    with (
        connected(broker.endpoint("calibrator"), client_id="writer") as writer,
        Proxy(broker.endpoint("calibrator")) as proxy,
    ):
        through = replace(broker.endpoint("calibrator"), port=proxy.port)
        with connected(
            through, on_message=lambda _topic, payload, _retained: heard.append(payload)
        ) as reader:
            reader.subscribe([T.all("noise"), T.all("ledger")])
            wait_for(lambda: reader.hears([T.all("noise"), T.all("ledger")]), "the subscriptions")
            reader.unsubscribe([T.all("ledger")])
            proxy.drop_all()
            wait_for(lambda: not reader.hears([T.all("noise")]), "the break to be noticed")
            wait_for(lambda: reader.hears([T.all("noise")]), "the subscription to come back")
            writer.publish(T.noise("motion"), b"again")
            wait_for(lambda: b"again" in heard, "what comes")
            assert not reader.hears([T.all("ledger")])


def test_a_refusal_of_what_is_added_leaves_the_rest_alone() -> None:
    """A filter that is refused, however often, ends no connection and is asked for again; others are heard at once."""
    changes: list[bool] = []
    with (
        ScriptedBroker() as scripted,
        connected(scripted.endpoint, subscriptions=["base"], on_change=changes.append) as reader,
    ):
        scripted.subacks = [1, 0x80, 0x80, 0x80, 0x80]
        reader.subscribe(["good", "bad"])
        wait_for(lambda: reader.hears(["good"]), "the one that is granted")
        assert not reader.hears(["bad"])
        wait_for(lambda: reader.hears(["bad"]), "the other, after four refusals")
        assert scripted.subscribed == ["base", "good", *["bad"] * 5]
        assert (changes, len(scripted.connects)) == ([True], 1)
        assert reader.last_error is None


def test_filters_are_asked_for_in_packets(nats: BrokerProcess) -> None:
    """Filters that are added at once go in several packets, each answered in time, and all are granted."""
    filters = [T.noise(f"stream-{number}") for number in range(60)]
    with connected(nats.endpoint("calibrator"), subscribe_twice=True) as reader:
        reader.subscribe(filters)
        wait_for(lambda: reader.hears(filters), "all subscriptions")


def test_nats_grants_more_than_a_thousand_subscriptions(nats: BrokerProcess) -> None:
    """All clients of a NATS together have more than the thousand subscriptions that it takes by default."""
    filters = [T.noise(f"stream-{number}") for number in range(60)]
    with ExitStack() as stack:
        readers = [
            stack.enter_context(connected(nats.endpoint("calibrator"), client_id=f"c{client}"))
            for client in range(17)
        ]
        for reader in readers:
            reader.subscribe(filters)
        wait_for(lambda: all(reader.hears(filters) for reader in readers), "all subscriptions")
