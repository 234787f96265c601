"""The site as the public audience may know it: the policy, the cohort's settings, and releases.

Whatever is shown to a viewer is made from this and from the public part of the database (console/store). Nothing in
here depends on the status of devices, on what arrived and when, or on the operator's account.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hushmq.broker.contract.messages import NoiseSetting, Release
from hushmq.broker.contract.policy_message import Policy


@dataclass(slots=True)
class PublicSite:
    """What was published for everybody."""

    cohort: str
    policy: Policy | None = None
    policy_key: str | None = None
    """The id of the key that signed it."""
    settings: dict[str, NoiseSetting] = field(default_factory=dict)
    """By stream, the cohort's noise setting."""
    releases: dict[tuple[str, str, str], Release] = field(default_factory=dict)
    """By stream, window and scope, the newest release."""

    def streams(self) -> list[str]:
        """All streams that are known of, in order."""
        named = set(self.policy.streams) if self.policy else set()
        return sorted(named | {stream for stream, _, _ in self.releases})

    def newest(self, stream: str, *, scope: str = "cohort") -> Release | None:
        """The newest release of a stream for a scope, of the window that closed last."""
        found = [one for (name, _, of), one in self.releases.items() if name == stream and of == scope]
        return max(found, key=lambda one: one.last, default=None)

    def stride(self, stream: str) -> int:
        """Of how many ticks of a stream one is published."""
        known = self.policy.streams.get(stream) if self.policy else None
        return known.stride if known else 1

    def stride_ms(self, stream: str) -> int:
        """How long a stride of a stream is, by which all that is published is numbered; a second without a policy."""
        known = self.policy.streams.get(stream) if self.policy else None
        return known.stride_ms if known else 1000
