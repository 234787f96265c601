"""A policy that somebody proposes: read by others before ops sign it, and compared with what they signed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hushmq.broker.contract.policy_message import Policy


@dataclass(frozen=True, slots=True)
class Proposal:
    """A policy without a signature, who proposed it, and when."""

    policy: Policy
    by: str
    at: float

    def changed_in(self, signed: Policy) -> list[str]:
        """The fields in which a signed policy is not what was proposed; none if it is."""
        return list(_different(self.policy.model_dump(mode="json"), signed.model_dump(mode="json")))


def _different(first: object, second: object, path: str = "") -> Iterator[str]:
    """The paths of the innermost fields that differ."""
    if first == second:
        return
    if not (isinstance(first, dict) and isinstance(second, dict)):
        yield path
        return
    for name in sorted({*first, *second}):
        yield from _different(first.get(name), second.get(name), f"{path}.{name}" if path else str(name))
