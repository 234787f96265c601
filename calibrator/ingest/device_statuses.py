"""What devices say of themselves: how far a roll-out has come, and who refuses it."""

from __future__ import annotations

from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.messages import Status
from hushmq.broker.contract.problem import Reason


class Statuses:
    """The last status of each device."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self.of: dict[str, Status] = {}
        self._log = log

    def hear(self, device: str, status: Status) -> None:
        """Keep it; what the device newly refuses of what was pushed is told of once."""
        refused = _refusals(status)
        for where, reason in refused - _refusals(self.of.get(device)):
            self._log.warning("refused_by_device", device=device, where=where, reason=str(reason))
        self.of[device] = status


def _refusals(status: Status | None) -> set[tuple[str, Reason]]:
    if status is None:
        return set()
    found = {("policy", status.refused.reason)} if status.refused else set()
    return found | {(name, one.refused.reason) for name, one in status.streams.items() if one.refused}
