"""Say once, in the log of the device, what the watches found, and store the alarms that must survive a restart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hushmq.agent.watch.arrival_rate import ArrivalRate
from hushmq.agent.watch.raised_alarms import RaisedAlarms
from hushmq.agent.watch.stream_watch import StreamWatch
from hushmq.broker.contract.policy_message import StreamPolicy


@dataclass(frozen=True, slots=True)
class _Said:
    warned: bool = False
    outside: bool = False
    repeating: bool = False


class WatchLog:
    """The findings of all streams of a device. Used from one thread."""

    def __init__(self, alarms: RaisedAlarms, log: Any) -> None:
        self._alarms, self._log = alarms, log
        self._said: dict[str, _Said] = {}

    def follow(
        self, stream: str, watch: StreamWatch, arrivals: ArrivalRate | None, stated: StreamPolicy
    ) -> None:
        """Log what is new about a stream since the last call, and store its alarm, for the policy as ops stated it."""
        said = self._said.get(stream, _Said())
        every_ms = None if arrivals is None else arrivals.every_ms
        self._said[stream] = _Said(watch.warned, watch.outside, said.repeating or every_ms is not None)
        policy = watch.policy
        if watch.warned and not said.warned:
            self._log.warning("states_outside_theta", stream=stream)
        if watch.outside and not said.outside:
            self._log.error("alarm_raised", stream=stream, action=policy.outside_theta)
        if every_ms is not None and not said.repeating:
            self._log.warning(
                "readings_repeated", stream=stream, every_ms=every_ms, period_ms=policy.period_ms
            )
        if watch.outside and policy.outside_theta != "warn":
            before = self._alarms.save_error
            self._alarms.add(stream, stated, watch.stop_from)
            if self._alarms.save_error not in {None, before}:
                self._log.error("alarm_not_saved", stream=stream, error=self._alarms.save_error)
