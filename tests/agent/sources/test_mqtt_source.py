"""A source that subscribes to a topic of a local broker."""

from __future__ import annotations

import io
from typing import Any

import pytest

from hushmq.agent.sources.mqtt_source import SubscribedTopic
from hushmq.agent.sources.parse_value import Reader
from hushmq.agent.sources.resample import Value
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.service.log import logger
from tests.agent.peer import wait_until
from tests.agent.sources.test_line_source import Kept
from tests.broker.plain import Plain


def test_values_come_from_a_topic_by_json_path(broker: BrokerProcess) -> None:
    """Retained messages are ignored unless configured; unreadable messages are counted."""
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


ZIGBEE = b'{"battery":97,"contact":%s,"device_temperature":23,"linkquality":120,"voltage":3005}'
TASMOTA = b'{"Time":"2026-11-16T18:00:00","ENERGY":{"Total":1.204,"Power":%d,"Voltage":231,"Current":0.16}}'
RTL = (
    b'{"time":"2026-11-16 18:00:00","model":"Acurite-Tower","id":%d,"channel":"A","battery_ok":1,'
    b'"temperature_C":%.1f,"humidity":44,"mic":"CHECKSUM"}'
)
HOMES: list[Any] = [
    pytest.param(
        Reader("json", "contact"),
        "zigbee2mqtt/front_door",
        [
            ("zigbee2mqtt/front_door", ZIGBEE % b"false"),
            ("zigbee2mqtt/front_door/availability", b'{"state":"online"}'),
            ("zigbee2mqtt/front_door", ZIGBEE % b"null"),
            ("zigbee2mqtt/front_door", ZIGBEE % b"true"),
        ],
        [False, True],
        id="zigbee2mqtt",
    ),
    pytest.param(
        Reader("json", "ENERGY.Power"),
        "tele/tasmota_8F2A11/SENSOR",
        [
            ("tele/tasmota_8F2A11/STATE", b'{"Time":"2026-11-16T18:00:00","POWER":"ON"}'),
            ("tele/tasmota_8F2A11/SENSOR", TASMOTA % 37),
            ("tele/tasmota_8F2A11/SENSOR", TASMOTA % 0),
        ],
        [37, 0],
        id="Tasmota",
    ),
    pytest.param(
        Reader("label"),
        "stat/tasmota_8F2A11/POWER",
        [("stat/tasmota_8F2A11/POWER", b"ON"), ("stat/tasmota_8F2A11/POWER", b"OFF")],
        ["ON", "OFF"],
        id="Tasmota power",
    ),
    pytest.param(
        Reader("json", "temperature_C", {"model": "Acurite-Tower", "id": 42}),
        "rtl_433/+/events",
        [
            ("rtl_433/gateway/events", RTL % (42, 19.1)),
            ("rtl_433/gateway/events", RTL % (7, -40.0)),
            ("rtl_433/gateway/events", b'{"model":"TPMS","id":"c0ffee","pressure_kPa":220.5}'),
            ("rtl_433/garage/events", RTL % (42, 19.4)),
        ],
        [19.1, 19.4],
        id="rtl_433",
    ),
    pytest.param(
        Reader(),
        "bedroom/sensor/heart_rate/state",
        [("bedroom/sensor/heart_rate/state", b"71.0"), ("bedroom/sensor/heart_rate/state", b"88.5")],
        [71.0, 88.5],
        id="ESPHome",
    ),
]


@pytest.mark.parametrize(("reader", "topic", "said", "values"), HOMES)
def test_payloads_of_common_home_devices_are_parsed(
    gateway: BrokerProcess, reader: Reader, topic: str, said: list[tuple[str, bytes]], values: list[Value]
) -> None:
    """Payloads of common programs, on their topics, are parsed; others are ignored."""
    kept, log = Kept(), logger("error", "json", io.StringIO())
    source = SubscribedTopic(
        gateway.endpoint("home"), topic, reader, kept, retained=False, name="agent", log=log
    )
    try:
        wait_until(lambda: source.trouble is None)
        with Plain(gateway.endpoint("home")) as plain:
            for where, payload in said:
                plain.publish(where, payload)
        wait_until(lambda: kept.values == values)
        assert source.unreadable == 0
    finally:
        source.stop()
