"""How far a published policy is, by what devices report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hushmq.broker.commands.rollout import State, progress_of
from hushmq.broker.contract.messages import Status
from hushmq.broker.contract.policy_message import Policy
from hushmq.console.state.live_site import LiveSite
from hushmq.console.state.reasons import reason_in_words


@dataclass(frozen=True, slots=True)
class RolloutState:
    """Devices by how far they are, and why some refuse."""

    version: int
    counts: Mapping[State, int]
    refusals: Mapping[tuple[str, str], int]
    """By reason in words, and what to do about it: how many devices."""
    first: Sequence[str] = ()
    """The devices that apply it first, where it is not for all."""

    @property
    def devices(self) -> int:
        return sum(self.counts.values())

    @property
    def applied(self) -> float:
        """The share of the devices that it is for that have applied it."""
        asked = self.devices - self.counts.get("held back", 0)
        return self.counts.get("applied", 0) / asked if asked else 0.0


def rollout_state(site: LiveSite, policy: Policy) -> RolloutState:
    """How far each device is."""
    counts: Counter[State] = Counter()
    refusals: Counter[tuple[str, str]] = Counter()
    for record in site.devices.values():
        status = Status(
            online=record.online, policy=record.policy, refused=record.refused, streams=record.streams
        )
        found = progress_of(record.name, status, policy, site.public.settings)
        counts[found.state] += 1
        if found.state == "refused":
            refusals[reason_in_words(found.reason.rpartition(": ")[2])] += 1
    return RolloutState(policy.version, counts, refusals, policy.first_devices)
