"""The status that each device reports: how far a roll-out has come, and which devices refuse it."""

from __future__ import annotations

from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.messages import Status
from hushmq.broker.contract.problem import Reason


class DeviceStatuses:
    """The last status of each device."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self.of: dict[str, Status] = {}
        self._log = log

    def update(self, device: str, status: Status) -> None:
        """Store a device's status, and log once what it newly refuses."""
        refused = _refusals(status)
        for where, reason in refused - _refusals(self.of.get(device)):
            self._log.warning("refused_by_device", device=device, where=where, reason=str(reason))
        self.of[device] = status

    def applied(self, policy: int) -> bool:
        """Whether a device says that it follows this version of the policy. A device reports when it connects."""
        return any(one.policy == policy for one in self.of.values())

    def remove(self, device: str) -> None:
        """Forget a status that was cleared."""
        self.of.pop(device, None)


def _refusals(status: Status | None) -> set[tuple[str, Reason]]:
    if status is None:
        return set()
    found = {("policy", status.refused.reason)} if status.refused else set()
    return found | {(name, one.refused.reason) for name, one in status.streams.items() if one.refused}
