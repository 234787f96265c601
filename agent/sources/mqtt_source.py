"""A source that listens to a topic on a local broker: zigbee2mqtt, Tasmota, rtl_433, ESPHome and similar."""

from __future__ import annotations

from typing import Any

from hushmq.agent.sources.parse_value import Reader, Unreadable
from hushmq.agent.sources.resample import Resampler, Value
from hushmq.agent.watch.arrival_rate import ArrivalRate
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.mqtt.endpoint import Endpoint

GOODBYE_S = 0.3
"""Seconds to wait at a stop for a local broker that may be gone: nothing was published to it."""


class SubscribedTopic:
    """Values of one topic (wildcards allowed). Retained messages may be old and are ignored unless configured."""

    def __init__(
        self,
        endpoint: Endpoint,
        topic: str,
        reader: Reader,
        resampler: Resampler,
        *,
        retained: bool,
        name: str,
        log: Any,
    ) -> None:
        self.unreadable = 0
        self._reader, self._resampler, self._retained = reader, resampler, retained
        self.arrivals: ArrivalRate | None = resampler.arrivals
        self._connection = Connection(
            endpoints=[endpoint],
            client_id=name,
            subscriptions=[topic],
            on_message=self._on_message,
            keep_session=False,
            log=log,
        )
        self._connection.start()

    def _on_message(self, _topic: str, payload: bytes, retained: bool) -> None:
        if retained and not self._retained:
            return
        try:
            value = self._reader.read(payload)
        except Unreadable:
            self.unreadable += 1
        else:
            if value is not None:
                self._resampler.offer(value)

    @property
    def trouble(self) -> str | None:
        return None if self._connection.connected else self._connection.last_error or "not connected yet"

    @property
    def silent_s(self) -> int | None:
        return self._resampler.silent_s

    def take(self, first: int, last: int) -> list[Value | None]:
        return self._resampler.take(first, last)

    def stop(self) -> None:
        self._connection.stop(GOODBYE_S)
