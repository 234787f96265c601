"""A source that listens to a local broker."""

from __future__ import annotations

import io

from agent.read import Reader
from agent.subscribe import SubscribedTopic
from broker.connection import Connection
from broker.log import logger
from broker.process import BrokerProcess
from tests.agent.peer import wait_until
from tests.agent.test_lines import Kept


def test_values_come_from_a_topic_by_json_path(broker: BrokerProcess) -> None:
    """A retained message is old and does not count unless that is wanted; what cannot be read is counted."""
    log = logger("debug", "json", io.StringIO())
    topic = "hush/1/test/policy"
    kept, old = Kept(), Kept()
    writer = Connection(endpoints=[broker.endpoint("ops")], client_id="gateway", log=log)
    writer.start()
    assert writer.wait_connected(10)
    writer.publish(topic, b'{"temperature": 1.0}', retain=True)
    wait_until(lambda: writer.in_flight == 0)

    def listen(kept: Kept, *, retained: bool, name: str) -> SubscribedTopic:
        reader = Reader("json", "temperature")
        return SubscribedTopic(
            broker.endpoint("ops"), topic, reader, kept, retained=retained, name=name, log=log
        )

    fresh_only, also_old = listen(kept, retained=False, name="a"), listen(old, retained=True, name="b")
    try:
        wait_until(lambda: old.values == [1.0])
        wait_until(lambda: fresh_only._connection.connected)
        writer.publish(topic, b'{"temperature": 2.0}')
        writer.publish(topic, b"marker")
        wait_until(lambda: kept.values == [2.0] and fresh_only.unreadable == 1)
        wait_until(lambda: old.values == [1.0, 2.0])
        assert also_old.take(0, 0) == [None]
    finally:
        fresh_only.stop()
        also_old.stop()
        writer.stop()
