"""Reader parses text to values."""

from __future__ import annotations

from typing import Any

import pytest

from hushmq.agent.sources.parse_value import LONGEST, Reader, Unreadable

Z2M = b'{"battery":97,"contact":false,"linkquality":120,"voltage":3005}'
TASMOTA = b'{"Time":"2026-11-16T18:00:00","AM2301":{"Temperature":22.4,"Humidity":51.0},"TempUnit":"C"}'
RTL = b'{"time":"2026-11-16 18:00:00","model":"Acurite-Tower","id":42,"channel":"A","temperature_C":19.1}'
ESPHOME = b"21.57"


@pytest.mark.parametrize(
    ("reader", "text", "value"),
    [
        (Reader(), ESPHOME, 21.57),
        (Reader(), b" -3e2 \r", -300.0),
        (Reader("label"), b"ON\r", "ON"),
        (Reader("label"), "geöffnet".encode(), "geöffnet"),
        (Reader("json"), b"17", 17),
        (Reader("json", "contact"), Z2M, False),
        (Reader("json", "battery"), Z2M, 97),
        (Reader("json", "AM2301.Temperature"), TASMOTA, 22.4),
        (Reader("json", "temperature_C", {"id": 42, "channel": "A"}), RTL, 19.1),
        (Reader("json", "temperature_C", {"id": 43}), RTL, None),
        (Reader("json", "temperature_C", {"absent": 1}), RTL, None),
        (Reader("json", "x", {"flag": True}), b'{"flag":1,"x":2}', None),
        (Reader("json", "list.1.x"), b'{"list":[{"x":1},{"x":2}]}', 2),
        (Reader("json", "x"), b'{"x":null}', None),
    ],
)
def test_a_value_is_read(reader: Reader, text: bytes, value: Any) -> None:
    """Values are parsed, also from payloads of zigbee2mqtt, Tasmota, rtl_433 and ESPHome."""
    found = reader.read(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (Reader(), b""),
        (Reader(), b"marker"),
        (Reader(), b"1" * (LONGEST + 1)),
        (Reader("label"), b"\xff"),
        (Reader("json"), b'{"marker":'),
        (Reader("json", "x"), b'{"marker":1}'),
        (Reader("json", "x.y"), b'{"x":"marker"}'),
        (Reader("json", "x.2"), b'{"x":["marker"]}'),
        (Reader("json", "x"), b'{"x":{"marker":1}}'),
        (Reader("json", "x"), b"[" * 50_000),
    ],
)
def test_what_cannot_be_read_is_never_shown(reader: Reader, text: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        reader.read(text)
    assert str(caught.value) == ""
    assert caught.value.__cause__ is None
